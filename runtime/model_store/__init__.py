"""Model folders on this machine: a cache of them, and how they are made from GGUF files.

A folder made here is in onnxruntime-genai's layout and runs there as well as here.
"""

from runtime.model_store.progress import Progress, no_progress
from runtime.model_store.store import DEFAULT_MODEL, ModelStore, StoredModel

__all__ = ["DEFAULT_MODEL", "ModelStore", "Progress", "StoredModel", "no_progress"]
