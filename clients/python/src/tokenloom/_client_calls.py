"""The calls of a client: opening sessions, models, adapters and the tokenizer. As `tokenloom._session_calls`, these
functions are the methods of Client and aio.Client under the same names.

Every call may raise DeadlineExceeded, Unavailable (no server, or one that is starting or draining) and Internal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, Unpack

from google.protobuf.message import Message

from tokenloom import _convert as convert
from tokenloom import types
from tokenloom._call import Call, Script, new_request_id
from tokenloom._session_calls import Opened, opened
from tokenloom._tensors import token_ids
from tokenloom.v1 import generator_pb2, models_pb2, tokenizer_pb2, types_pb2

T = TypeVar("T")


# --- sessions --------------------------------------------------------------------------------------------------------


def create_session(
    prompt: types.Prompt | None = None,
    *,
    model: str = "",
    session_id: str = "",
    batch_size: int | None = None,
    adapter: str = "",
    idle_timeout: float | timedelta | None = None,
    wait_for_ready: bool = False,
    **config: Unpack[types.GenerationConfig],
) -> Call[Opened]:
    """Create a session. Use it as a context manager to have it closed.

    prompt: first content: text, token ids, messages, or a list with one of those per row.
    model: name of a loaded model; "" for the default. session_id: proposed, 1 to 63 of a-z, 0-9 and '-'; by default the
    server makes one. batch_size: rows; default 1, or one per content. adapter: LoRA adapter to start with.
    idle_timeout: seconds or timedelta after which the unused session is closed; default and limit are the server's.
    wait_for_ready: wait for a server that is not there yet, up to the client's timeout.
    config: generation settings, see `GenerationConfig`.

    Raises InvalidArgument (a setting, content), NotFound (model, adapter), AlreadyExists (the id is taken),
    ContextLengthExceeded (the prompt), ResourceExhausted (a limit of the server; `retry_delay` says when to try again).
    """
    request = convert.build(
        generator_pb2.CreateSessionRequest,
        session_id=session_id,
        model=model,
        request_id=new_request_id(),
        batch_size=batch_size,
        generation_config=convert.generation_config(config),
        adapter=adapter,
        inputs=convert.prompt_inputs(prompt),
        idle_timeout=convert.duration(idle_timeout),
    )
    return Call(request, opened, wait_for_ready)


def attach(session_id: str) -> Call[Opened]:
    """The session of that id, made by any client. It is shared: see `expected_length` of its operations.

    Raises NotFound, SessionExpired.
    """
    return Call(convert.build(generator_pb2.GetSessionRequest, session_id=session_id), opened)


def list_sessions(model: str = "") -> Script[list[types.SessionState]]:
    """All sessions of the server, or those of one model, by id."""
    return _pages(
        lambda token: generator_pb2.ListSessionsRequest(page_size=1000, page_token=token, model=model),
        lambda reply: [convert.session_state(state) for state in reply.sessions],
    )


def close_session(session_id: str) -> Call[None]:
    """Close a session by its id. Raises NotFound, SessionExpired."""
    return Call(convert.build(generator_pb2.CloseSessionRequest, session_id=session_id), lambda reply: None)


def generate(
    prompt: types.Prompt,
    *,
    model: str = "",
    adapter: str = "",
    skip_text: bool = False,
    **config: Unpack[types.GenerationConfig],
) -> generator_pb2.GenerateRequest:
    """Generate for one prompt or a batch, with no session to keep. Iterate over the result for tokens as they come.

    prompt: text, token ids, messages, or a list with one of those per row. model, adapter: as `create_session`.
    skip_text: leave the text out. config: generation settings. Rows that finish by nothing else finish at max_length.

    Raises, when iterated: InvalidArgument, NotFound, ContextLengthExceeded, ResourceExhausted.
    """
    return convert.build(
        generator_pb2.GenerateRequest,
        model=model,
        inputs=convert.prompt_inputs(prompt),
        generation_config=convert.generation_config(config),
        adapter=adapter,
        skip_text=skip_text,
    )


def chat(
    messages: Sequence[types.Message],
    *,
    model: str = "",
    adapter: str = "",
    **config: Unpack[types.GenerationConfig],
) -> generator_pb2.GenerateRequest:
    """Answer a conversation, with no session to keep. Iterate over the result for the answer's text as it comes.

    messages: {"role": ..., "content": ...} mappings, oldest first, for the model's chat template. For a conversation
    that goes on, a session with `append_messages` computes each message once only. Otherwise as `generate`.
    """
    return generate([messages], model=model, adapter=adapter, **config)


# --- server, models, adapters ----------------------------------------------------------------------------------------


def server_info() -> Call[types.ServerInfo]:
    """Version and limits of the server."""
    return Call(models_pb2.GetServerInfoRequest(), convert.server_info)


def list_models() -> Script[list[types.ModelInfo]]:
    """The models that are loaded, by name."""
    return _pages(
        lambda token: models_pb2.ListModelsRequest(page_size=1000, page_token=token),
        lambda reply: [convert.model_info(model) for model in reply.models],
    )


def get_model(model: str = "") -> Call[types.ModelInfo]:
    """A loaded model with the signature of its graph; "" for the default. Raises NotFound."""
    return Call(
        convert.build(models_pb2.GetModelRequest, model=model),
        lambda reply: convert.model_info(reply.model, reply.inputs, reply.outputs),
    )


def load_model(model: str, path: str = "") -> Call[types.ModelInfo]:
    """Load a folder of the server's model directories under a name. path: of the folder; "" for the name.

    Raises NotFound (lists what is there), AlreadyExists (the name), FailedPrecondition (a folder that can't be run).
    """
    return Call(
        convert.build(models_pb2.LoadModelRequest, model=model, path=path),
        lambda reply: convert.model_info(reply.model),
    )


def unload_model(model: str) -> Call[None]:
    """Unload a model. Raises NotFound, FailedPrecondition (MODEL_IN_USE: it has sessions)."""
    return Call(convert.build(models_pb2.UnloadModelRequest, model=model), lambda reply: None)


def list_adapters(model: str = "") -> Script[list[types.AdapterInfo]]:
    """The LoRA adapters of a model that are loaded. Raises NotFound."""
    return _pages(
        lambda token: models_pb2.ListAdaptersRequest(model=model, page_size=1000, page_token=token),
        lambda reply: [convert.adapter_info(adapter) for adapter in reply.adapters],
    )


def load_adapter(path: str, adapter: str, *, model: str = "") -> Call[types.AdapterInfo]:
    """Load a LoRA adapter file of the server's adapter directories under a name.

    Raises NotFound (file, model), AlreadyExists (the name), PermissionDenied (outside those directories),
    InvalidArgument (a file that does not fit the model).
    """
    return Call(
        convert.build(models_pb2.LoadAdapterRequest, model=model, adapter=adapter, path=path),
        lambda reply: convert.adapter_info(reply.adapter),
    )


def unload_adapter(adapter: str, *, model: str = "") -> Call[None]:
    """Unload an adapter. Raises NotFound, FailedPrecondition (ADAPTER_IN_USE: a session has it active)."""
    return Call(convert.build(models_pb2.UnloadAdapterRequest, model=model, adapter=adapter), lambda reply: None)


# --- tokenizer -------------------------------------------------------------------------------------------------------


def encode(text: str, *, model: str = "", add_special_tokens: bool = False) -> Call[types.TokenArray]:
    """The tokens of a text: int32 [n]. add_special_tokens: let the tokenizer add its own."""
    return Call(_encode([text], model, add_special_tokens), lambda reply: convert.tokens(reply.sequences[0].ids))


def encode_batch(
    texts: Sequence[str], *, model: str = "", add_special_tokens: bool = False
) -> Call[list[types.TokenArray]]:
    """The tokens of several texts: one int32 [n] each, of its own length, without padding."""
    return Call(
        _encode(texts, model, add_special_tokens),
        lambda reply: [convert.tokens(sequence.ids) for sequence in reply.sequences],
    )


def decode(tokens: types.Tokens, *, model: str = "", skip_special_tokens: bool = True) -> Call[str]:
    """The text of token ids [n]. Raises InvalidArgument naming an id outside the vocabulary."""
    return Call(_decode([tokens], model, skip_special_tokens), lambda reply: str(reply.texts[0]))


def decode_batch(
    sequences: Sequence[types.Tokens], *, model: str = "", skip_special_tokens: bool = True
) -> Call[list[str]]:
    """The texts of several sequences of token ids. Raises InvalidArgument naming an id outside the vocabulary."""
    return Call(_decode(sequences, model, skip_special_tokens), lambda reply: list(reply.texts))


def apply_chat_template(
    messages: Sequence[types.Message], *, model: str = "", add_generation_prompt: bool = True
) -> Call[types.ChatPrompt]:
    """What the model's chat template makes of a conversation. add_generation_prompt: end with the opening of an answer.

    Raises InvalidArgument (no message), FailedPrecondition (the model has no chat template).
    """
    request = convert.build(
        tokenizer_pb2.ApplyChatTemplateRequest, model=model, chat=convert.chat(messages, add_generation_prompt)
    )
    return Call(request, lambda reply: types.ChatPrompt(reply.text, convert.tokens(reply.tokens.ids)))


def get_token_ids(tokens: Sequence[str], *, model: str = "") -> Call[types.TokenArray]:
    """The ids of tokens by their exact spelling in the vocabulary: int32 [n]. Raises InvalidArgument."""
    return Call(
        convert.build(tokenizer_pb2.GetTokenIdsRequest, model=model, tokens=tokens),
        lambda reply: convert.tokens(reply.ids),
    )


def _encode(texts: Sequence[str], model: str, add_special_tokens: bool) -> tokenizer_pb2.EncodeRequest:
    return convert.build(tokenizer_pb2.EncodeRequest, model=model, texts=texts, add_special_tokens=add_special_tokens)


def _decode(sequences: Sequence[types.Tokens], model: str, skip: bool) -> tokenizer_pb2.DecodeRequest:
    ids = [types_pb2.TokenIds(ids=token_ids(sequence, "tokens")) for sequence in sequences]
    return convert.build(tokenizer_pb2.DecodeRequest, model=model, sequences=ids, skip_special_tokens=skip)


def _pages(request: Callable[[str], Message], items: Callable[[Any], list[T]]) -> Script[list[T]]:
    """All pages of a list."""
    found: list[T] = []
    token = ""
    while True:
        reply = yield Call(request(token), lambda reply: reply)
        found += items(reply)
        token = reply.next_page_token
        if not token:
            return found
