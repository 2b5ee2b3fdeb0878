"""Client for Tokenloom: stateful token-generation sessions over gRPC.

`Client` and `Session` are the synchronous client, `tokenloom.aio` has their asyncio twins. `Model`, `Tokenizer`,
`GeneratorParams`, `Generator` and `Adapters` are the names of onnxruntime-genai. `tokenloom.edit` makes changes to
logits, `tokenloom.errors` is what can be raised. Whatever starts with an underscore may change.
"""

from tokenloom import aio, edit, errors, types
from tokenloom._exchange import HookReply, LogitsHook
from tokenloom.client import Client, TokenStream
from tokenloom.conversation import Conversation, Reply, StepsReply
from tokenloom.errors import TokenloomError
from tokenloom.generator import Adapters, Generator, GeneratorParams, Model, Tokenizer, TokenizerStream
from tokenloom.session import Session
from tokenloom.types import FinishReason, GenerationConfig

__all__ = [
    "Adapters",
    "Client",
    "Conversation",
    "FinishReason",
    "GenerationConfig",
    "Generator",
    "GeneratorParams",
    "HookReply",
    "LogitsHook",
    "Model",
    "Reply",
    "Session",
    "StepsReply",
    "TokenStream",
    "Tokenizer",
    "TokenizerStream",
    "TokenloomError",
    "aio",
    "edit",
    "errors",
    "types",
]
