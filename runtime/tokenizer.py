"""Text to token ids and back, with the tokenizer files of a model folder.

The methods are those of onnxruntime-genai's Tokenizer; `tokenizers` does the work. Knows nothing of models or sessions.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from runtime.chat_template import ChatTemplate, Message
from runtime.detokenizer import IncrementalDetokenizer
from runtime.errors import FailedPrecondition, InvalidArgument

TokenIds = Sequence[int] | NDArray[np.integer[Any]]
"""Token ids [n]."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class Tokenizer:
    """A model's tokenizer. Safe to share between threads: nothing in it changes after loading."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        special_tokens: Mapping[str, str] | None = None,
        chat_templates: Mapping[str, str] | None = None,
    ) -> None:
        """`special_tokens`: role ("bos_token") to spelling. `chat_templates`: name to Jinja source."""
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        vocabulary = backend.get_vocab(with_added_tokens=True)
        self._vocab_size = max(vocabulary.values(), default=-1) + 1
        self._special_tokens = dict(special_tokens or {})
        self._special_ids = frozenset(
            index for index, token in backend.get_added_tokens_decoder().items() if token.special
        )
        named = {index for spelling, index in vocabulary.items() if spelling}
        self._blank_ids = frozenset(range(self._vocab_size)) - named
        self._hidden_ids = self._blank_ids | self._special_ids
        self._byte_fallback = _has_decoder(json.loads(backend.to_str())["decoder"], "ByteFallback")
        self._chat_templates = {
            name: ChatTemplate(source, self._special_tokens) for name, source in (chat_templates or {}).items()
        }

    @classmethod
    def load(cls, model_dir: Path) -> Tokenizer:
        """Reads tokenizer.json and, where they exist, tokenizer_config.json, special_tokens_map.json and
        chat_template.jinja of a folder.

        Raises FailedPrecondition: NO_TOKENIZER if there is no tokenizer.json, TOKENIZER_INVALID if a file is broken.
        """
        path = model_dir / "tokenizer.json"
        if not path.is_file():
            raise FailedPrecondition("NO_TOKENIZER", f"{model_dir.name} has no tokenizer.json")
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise FailedPrecondition("TOKENIZER_INVALID", f"{path.name} can't be read: {error}") from error
        config = _read_json(model_dir / "tokenizer_config.json")
        special_tokens = _spellings(_read_json(model_dir / "special_tokens_map.json")) | _spellings(config)
        return cls(backend, special_tokens, _chat_templates(model_dir, config))

    @property
    def vocab_size(self) -> int:
        """One more than the largest id, added tokens included."""
        return self._vocab_size

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids left out of decoded text unless asked for."""
        return self._special_ids

    @property
    def has_chat_template(self) -> bool:
        """Whether `apply_chat_template` can work."""
        return bool(self._chat_templates)

    @cached_property
    def bos_token_id(self) -> int | None:
        """Id of the beginning-of-sequence token, None if the tokenizer names none."""
        return self._special_id("bos_token")

    @cached_property
    def eos_token_id(self) -> int | None:
        """Id of the end-of-sequence token, None if the tokenizer names none."""
        return self._special_id("eos_token")

    @cached_property
    def pad_token_id(self) -> int | None:
        """Id of the padding token, None if the tokenizer names none."""
        return self._special_id("pad_token")

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Ids of a text. Special tokens spelled out in it are recognised.

        `add_special_tokens`: whether to add those of the tokenizer's own frame, such as a beginning of sequence.
        Raises InvalidArgument (text) for text that isn't Unicode.
        """
        _check_unicode("text", text)
        ids: list[int] = self._backend.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[list[int]]:
        """Ids of each text, each of its own length: nothing is padded."""
        for index, text in enumerate(texts):
            _check_unicode(f"texts[{index}]", text)
        encodings = self._backend.encode_batch_fast(list(texts), add_special_tokens=add_special_tokens)
        return [encoding.ids for encoding in encodings]

    def decode(self, token_ids: TokenIds, skip_special_tokens: bool = True) -> str:
        """Text of ids [n]. Bytes that are no UTF-8 become U+FFFD; an id between tokens (a hole) has no text.

        Raises InvalidArgument (token_ids[i]) for an id outside the vocabulary.
        """
        return self._decode("token_ids", token_ids, skip_special_tokens)

    def decode_batch(self, sequences: Sequence[TokenIds], skip_special_tokens: bool = True) -> list[str]:
        """Text of each sequence. Raises InvalidArgument (sequences[row][i]) for an id outside the vocabulary."""
        return [
            self._decode(f"sequences[{row}]", token_ids, skip_special_tokens) for row, token_ids in enumerate(sequences)
        ]

    def to_token_id(self, token: str) -> int:
        """Id of a token by its exact spelling in the vocabulary. Raises InvalidArgument (token) for an unknown one."""
        _check_unicode("token", token)
        index: int | None = self._backend.token_to_id(token)
        if index is None:
            raise InvalidArgument("token", token, "it must be spelled as in the tokenizer's vocabulary")
        return index

    def token(self, token_id: int) -> str:
        """Spelling of a token in the vocabulary. Raises InvalidArgument (token_id) for an id that has none."""
        (index,) = self._check_ids("token_id", [token_id])
        spelling: str | None = self._backend.id_to_token(index)
        if spelling is None:
            raise InvalidArgument("token_id", token_id, "the tokenizer's vocabulary has no token of this id")
        return spelling

    def with_text(self, token_ids: Iterable[int], skip_special_tokens: bool) -> list[int]:
        """Those of the ids that add to a text. Ids outside the vocabulary add nothing: a model may be wider."""
        hidden = self._hidden_ids if skip_special_tokens else self._blank_ids
        return [index for index in token_ids if 0 <= index < self._vocab_size and index not in hidden]

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The prompt of a conversation; see `ChatTemplate.render`. Encode it without adding special tokens.

        Raises FailedPrecondition (NO_CHAT_TEMPLATE) if the model has no template.
        """
        name = "tool_use" if tools and "tool_use" in self._chat_templates else "default"
        if name not in self._chat_templates:
            raise FailedPrecondition("NO_CHAT_TEMPLATE", "the model's tokenizer has no chat template")
        template = self._chat_templates[name]
        return template.render(messages, add_generation_prompt=add_generation_prompt, tools=tools, **variables)

    def create_stream(self) -> TokenizerStream:
        """A decoder that is fed one id at a time."""
        return TokenizerStream(IncrementalDetokenizer(self))

    def _special_id(self, name: str) -> int | None:
        if name not in self._special_tokens:
            return None
        index: int | None = self._backend.token_to_id(self._special_tokens[name])
        return index

    def _decode(self, field: str, token_ids: TokenIds, skip_special_tokens: bool) -> str:
        ids = self._check_ids(field, token_ids)
        text: str = self._backend.decode(ids, skip_special_tokens=skip_special_tokens)
        if self._byte_fallback and _REPLACEMENT in text:
            # The library gives up on a whole run of byte tokens if one of them is wrong. Only the wrong ones must
            # turn into U+FFFD, or text that was already streamed would change.
            tokens = map(self._backend.id_to_token, self.with_text(ids, skip_special_tokens))
            text = self._backend.decoder.decode(_replace_invalid_bytes(token for token in tokens if token is not None))
        return text

    def _check_ids(self, field: str, token_ids: TokenIds) -> list[int]:
        try:
            values = token_ids.tolist() if isinstance(token_ids, np.ndarray) else token_ids
            ids = list(map(operator.index, values))
        except TypeError as error:
            raise InvalidArgument(field, token_ids, "a flat sequence of integers is needed") from error
        if ids and not (min(ids) >= 0 and max(ids) < self._vocab_size):
            index, value = next((i, v) for i, v in enumerate(ids) if not 0 <= v < self._vocab_size)
            name = field if field == "token_id" else f"{field}[{index}]"
            raise InvalidArgument(name, value, f"ids go from 0 to {self._vocab_size - 1}")
        return ids


class TokenizerStream:
    """onnxruntime-genai's TokenizerStream: ids in, one at a time; text out as soon as it is certain."""

    def __init__(self, detokenizer: IncrementalDetokenizer) -> None:
        self._detokenizer = detokenizer

    def decode(self, token: int) -> str:
        """The text this id completes, "" while a character is unfinished."""
        return self._detokenizer.push([token])

    def finish(self) -> str:
        """What is still held back at the end: U+FFFD for a character that never got complete."""
        return self._detokenizer.finish()


def _replace_invalid_bytes(tokens: Iterable[str]) -> list[str]:
    """Puts the token U+FFFD where a byte token (<0xC3>) can't be part of a UTF-8 character; keeps all others."""
    kept: list[str] = []
    run = bytearray()
    for token in tokens:
        if match := _BYTE_TOKEN.fullmatch(token):
            run.append(int(match[1], 16))
        else:
            kept += [*_byte_tokens(run), token]
            run.clear()
    return kept + _byte_tokens(run)


def _byte_tokens(run: bytearray) -> list[str]:
    tokens: list[str] = []
    for character in run.decode("utf-8", errors="surrogateescape"):  # an invalid byte becomes a lone surrogate
        if "\udc80" <= character <= "\udcff":
            tokens.append(_REPLACEMENT)
        else:
            tokens += [f"<0x{byte:02X}>" for byte in character.encode()]
    return tokens


def _has_decoder(decoder: dict[str, Any] | None, kind: str) -> bool:
    if decoder is None:
        return False
    return decoder["type"] == kind or any(_has_decoder(part, kind) for part in decoder.get("decoders", ()))


def _check_unicode(field: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(field, text, f"lone surrogates are no text (position {error.start})") from error


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FailedPrecondition("TOKENIZER_INVALID", f"{path.name} can't be read: {error}") from error
    if not isinstance(content, dict):
        raise FailedPrecondition("TOKENIZER_INVALID", f"{path.name} must hold a JSON object")
    return content


def _spellings(config: Mapping[str, Any]) -> dict[str, str]:
    """Role to spelling. A token is written as a string, or as an object with its content."""
    spellings: dict[str, str] = {}
    for name in _SPECIAL_TOKENS:
        match config.get(name):
            case str(spelling) | {"content": str(spelling)}:
                spellings[name] = spelling
    return spellings


def _chat_templates(model_dir: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Name to source. A file wins over the config, which has one template or a list of named ones."""
    path = model_dir / "chat_template.jinja"
    if path.is_file():
        return {"default": path.read_text(encoding="utf-8")}
    match config.get("chat_template"):
        case None:
            return {}
        case str(source):
            return {"default": source}
        case [*entries] if all(isinstance(entry, dict) and {"name", "template"} <= entry.keys() for entry in entries):
            return {str(entry["name"]): str(entry["template"]) for entry in entries}
    raise FailedPrecondition(
        "TOKENIZER_INVALID", "chat_template in tokenizer_config.json must be a text or a list of named ones"
    )
