"""The names of onnxruntime-genai over the wire: programs written for its Generator differ in how the model is opened.

import tokenloom as og
model = og.Model("localhost:50051")
"""

from __future__ import annotations

import atexit
import contextlib
import json
import weakref
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Unpack

from tokenloom import _client_calls as client_calls
from tokenloom import _convert as convert
from tokenloom import types
from tokenloom.client import Client
from tokenloom.errors import TokenloomError, invalid
from tokenloom.session import Session


class Model:
    """A model loaded in a server.

    target: "host:port" of the server, or a Client to use. name: of the model; "" for the server's default.
    Raises Unavailable (no server there), NotFound (no such model).
    """

    def __init__(self, target: str | Client, name: str = "") -> None:
        self.client = target if isinstance(target, Client) else Client(target)
        self.info = self.client.get_model(name)

    @property
    def name(self) -> str:
        """Its name in the server."""
        return self.info.name

    @property
    def type(self) -> str:
        """Architecture: "llama", "gpt2", ..."""
        return self.info.type


class TokenizerStream:
    """Turns tokens of one row into text as they come; made by `Tokenizer.create_stream`.

    Characters whose bytes are spread over tokens come whole, with their last token.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._told: list[int] = []  # The tokens whose text was given last: what follows may depend on them.
        self._pending: list[int] = []

    def decode(self, token: int) -> str:
        """The text that is certain with this token, "" where a character is still incomplete."""
        self._pending.append(int(token))
        text = self._pending_text()
        if not text or text.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        return self._tell(text)

    def flush(self) -> str:
        """The text of what is left, at the end: a replacement character where a character stayed incomplete."""
        return self._tell(self._pending_text()) if self._pending else ""

    def _pending_text(self) -> str:
        before, all_of_it = self._tokenizer.decode_batch([self._told, self._told + self._pending])
        return all_of_it[len(before) :]

    def _tell(self, text: str) -> str:
        self._told, self._pending = self._pending, []
        return text


class Tokenizer:
    """The tokenizer of a model. Raises, in its methods, FailedPrecondition where the model has none."""

    def __init__(self, model: Model) -> None:
        self._client = model.client
        self._model = model.name

    def encode(self, text: str) -> types.TokenArray:
        """The tokens of a text: int32 [n]."""
        return self._client.encode(text, model=self._model)

    def encode_batch(self, texts: Sequence[str]) -> list[types.TokenArray]:
        """The tokens of several texts: one int32 [n] each, of its own length, as `append_tokens` takes them."""
        return self._client.encode_batch(texts, model=self._model)

    def decode(self, tokens: types.Tokens) -> str:
        """The text of token ids [n], without special tokens. Raises InvalidArgument naming an unknown id."""
        return self._client.decode(tokens, model=self._model)

    def decode_batch(self, sequences: Sequence[types.Tokens]) -> list[str]:
        """The texts of several sequences of token ids, without special tokens."""
        return self._client.decode_batch(sequences, model=self._model)

    def to_token_id(self, token: str) -> int:
        """The id of a token by its exact spelling in the vocabulary. Raises InvalidArgument for an unknown one."""
        return int(self._client.get_token_ids([token], model=self._model)[0])

    def apply_chat_template(
        self, messages: str | Sequence[types.Message], *, add_generation_prompt: bool = True
    ) -> str:
        """The text the chat template makes of messages: {"role": ..., "content": ...} mappings, or JSON of them.

        Raises InvalidArgument (no message), FailedPrecondition (the model has no chat template).
        """
        conversation = json.loads(messages) if isinstance(messages, str) else messages
        return self._client.apply_chat_template(
            conversation, model=self._model, add_generation_prompt=add_generation_prompt
        ).text

    def create_stream(self) -> TokenizerStream:
        """A stream that turns tokens into text one by one."""
        return TokenizerStream(self)


class GeneratorParams:
    """Settings of a Generator."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.batch_size: int | None = None
        self.search_options: types.GenerationConfig = {}

    def set_search_options(self, *, batch_size: int | None = None, **options: Unpack[types.GenerationConfig]) -> None:
        """Set generation settings (see `GenerationConfig`) and the number of rows.

        Raises InvalidArgument for an unknown name or a value that cannot be sent; ranges are checked by the server,
        when a Generator is made.
        """
        convert.generation_config(options)
        self.search_options.update(options)
        if batch_size is not None:
            self.batch_size = batch_size


class Adapters:
    """The LoRA adapters of a model, shared by everyone who uses the server."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def load(self, path: str, name: str) -> None:
        """Load an adapter file of the server's adapter directories under a name.

        Raises NotFound (file), AlreadyExists (the name), PermissionDenied (outside those directories), InvalidArgument
        (a file that does not fit the model).
        """
        self.model.client.load_adapter(path, name, model=self.model.name)

    def unload(self, name: str) -> None:
        """Unload an adapter. Raises NotFound, FailedPrecondition (ADAPTER_IN_USE: a session has it active)."""
        self.model.client.unload_adapter(name, model=self.model.name)

    def list(self) -> list[types.AdapterInfo]:
        """The adapters that are loaded."""
        return self.model.client.list_adapters(self.model.name)


class Generator(Session):
    """A Session made from a Model and GeneratorParams. One that is dropped unclosed is closed when the next is made, or
    at exit.

    Raises what `Client.create_session` raises.
    """

    def __init__(self, model: Model, params: GeneratorParams) -> None:
        _close_dropped()
        client = model.client
        call = client_calls.create_session(model=model.name, batch_size=params.batch_size, **params.search_options)
        super().__init__(client, client._run(call))
        weakref.finalize(self, _dropped.put, (client, self.id))

    def set_active_adapter(
        self,
        adapters: Adapters | str,
        adapter_name: str | None = None,
        *,
        recompute: bool = False,
        expected_length: int | None = None,
    ) -> None:
        """Switch to a loaded adapter: (adapters, name), or the name alone; "" for the base model.

        recompute: compute what the cache holds again with the adapter. Raises NotFound (no such adapter).
        """
        if isinstance(adapters, str) == (adapter_name is not None):
            raise invalid("adapter_name", "give Adapters and a name, or a name alone")
        name = adapters if isinstance(adapters, str) else str(adapter_name)
        super().set_active_adapter(name, recompute=recompute, expected_length=expected_length)


# A finalizer may run in any thread at any moment, so it only notes what is to be closed.
_dropped: SimpleQueue[tuple[Client, str]] = SimpleQueue()


@atexit.register
def _close_dropped() -> None:
    while not _dropped.empty():
        client, session_id = _dropped.get()
        with contextlib.suppress(TokenloomError):  # Closed or expired already, or the server is gone.
            client.close_session(session_id)
