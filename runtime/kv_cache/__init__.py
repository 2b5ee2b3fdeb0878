"""Where the keys and values of sequences lie: one interface, two kinds.

`slots` shares one preallocated buffer between past and present (GroupQueryAttention); `concatenating` serves graphs
that return present = concat(past, new).
"""

from runtime.kv_cache.base import KVCache, RunRow, SavedRow
from runtime.kv_cache.concatenating import ConcatenatingCache
from runtime.kv_cache.slots import SlotCache
from runtime.model import Model

__all__ = ["ConcatenatingCache", "KVCache", "RunRow", "SavedRow", "SlotCache", "open_cache"]


def open_cache(model: Model) -> KVCache:
    """The kind of cache the model's graph asks for."""
    return SlotCache(model) if model.config.shared_buffer else ConcatenatingCache(model)
