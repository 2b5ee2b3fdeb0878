import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tokenloom.v1 import generation_pb2 as _generation_pb2
from tokenloom.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionState(_message.Message):
    __slots__ = ("session_id", "model", "adapter", "length", "is_done", "rows", "expire_time", "parked", "attached")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    IS_DONE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    model: str
    adapter: str
    length: int
    is_done: bool
    rows: _containers.RepeatedCompositeFieldContainer[_types_pb2.RowState]
    expire_time: _timestamp_pb2.Timestamp
    parked: bool
    attached: bool
    def __init__(self, session_id: _Optional[str] = ..., model: _Optional[str] = ..., adapter: _Optional[str] = ..., length: _Optional[int] = ..., is_done: bool = ..., rows: _Optional[_Iterable[_Union[_types_pb2.RowState, _Mapping]]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., parked: bool = ..., attached: bool = ...) -> None: ...

class CreateSessionRequest(_message.Message):
    __slots__ = ("session_id", "model", "request_id", "batch_size", "generation_config", "adapter", "inputs", "idle_timeout")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    model: str
    request_id: str
    batch_size: int
    generation_config: _generation_pb2.GenerationConfig
    adapter: str
    inputs: _containers.RepeatedCompositeFieldContainer[_types_pb2.RowInput]
    idle_timeout: _duration_pb2.Duration
    def __init__(self, session_id: _Optional[str] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ..., batch_size: _Optional[int] = ..., generation_config: _Optional[_Union[_generation_pb2.GenerationConfig, _Mapping]] = ..., adapter: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[_types_pb2.RowInput, _Mapping]]] = ..., idle_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CreateSessionResponse(_message.Message):
    __slots__ = ("state", "generation_config")
    STATE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    generation_config: _generation_pb2.GenerationConfig
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., generation_config: _Optional[_Union[_generation_pb2.GenerationConfig, _Mapping]] = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class GetSessionResponse(_message.Message):
    __slots__ = ("state", "generation_config")
    STATE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    generation_config: _generation_pb2.GenerationConfig
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., generation_config: _Optional[_Union[_generation_pb2.GenerationConfig, _Mapping]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "model")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    model: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionState]
    next_page_token: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionState, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ForkSessionRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "expected_length", "new_session_id", "seed", "generation_config", "idle_timeout")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    NEW_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    GENERATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    expected_length: int
    new_session_id: str
    seed: int
    generation_config: _generation_pb2.GenerationConfig
    idle_timeout: _duration_pb2.Duration
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_length: _Optional[int] = ..., new_session_id: _Optional[str] = ..., seed: _Optional[int] = ..., generation_config: _Optional[_Union[_generation_pb2.GenerationConfig, _Mapping]] = ..., idle_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ForkSessionResponse(_message.Message):
    __slots__ = ("state", "generation_config")
    STATE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    generation_config: _generation_pb2.GenerationConfig
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., generation_config: _Optional[_Union[_generation_pb2.GenerationConfig, _Mapping]] = ...) -> None: ...

class AppendTokensRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "expected_length", "inputs")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    expected_length: int
    inputs: _containers.RepeatedCompositeFieldContainer[_types_pb2.RowInput]
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_length: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[_types_pb2.RowInput, _Mapping]]] = ...) -> None: ...

class AppendTokensResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ...) -> None: ...

class GenerateNextTokenRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "expected_length")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    expected_length: int
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_length: _Optional[int] = ...) -> None: ...

class GenerateNextTokenResponse(_message.Message):
    __slots__ = ("state", "next_tokens")
    STATE_FIELD_NUMBER: _ClassVar[int]
    NEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    next_tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., next_tokens: _Optional[_Iterable[int]] = ...) -> None: ...

class GenerateTokensRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "expected_length", "steps", "inputs", "edits", "return_logits", "skip_text", "logits_hook")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    EDITS_FIELD_NUMBER: _ClassVar[int]
    RETURN_LOGITS_FIELD_NUMBER: _ClassVar[int]
    SKIP_TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGITS_HOOK_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    expected_length: int
    steps: int
    inputs: _containers.RepeatedCompositeFieldContainer[_types_pb2.RowInput]
    edits: _containers.RepeatedCompositeFieldContainer[_generation_pb2.LogitsEdit]
    return_logits: _generation_pb2.LogitsSelector
    skip_text: bool
    logits_hook: LogitsHook
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_length: _Optional[int] = ..., steps: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[_types_pb2.RowInput, _Mapping]]] = ..., edits: _Optional[_Iterable[_Union[_generation_pb2.LogitsEdit, _Mapping]]] = ..., return_logits: _Optional[_Union[_generation_pb2.LogitsSelector, _Mapping]] = ..., skip_text: bool = ..., logits_hook: _Optional[_Union[LogitsHook, _Mapping]] = ...) -> None: ...

class LogitsHook(_message.Message):
    __slots__ = ("selector",)
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    selector: _generation_pb2.LogitsSelector
    def __init__(self, selector: _Optional[_Union[_generation_pb2.LogitsSelector, _Mapping]] = ...) -> None: ...

class RowTokens(_message.Message):
    __slots__ = ("row", "token_ids", "text", "finish_reason")
    ROW_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    row: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    text: str
    finish_reason: _types_pb2.FinishReason
    def __init__(self, row: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., text: _Optional[str] = ..., finish_reason: _Optional[_Union[_types_pb2.FinishReason, str]] = ...) -> None: ...

class GenerateTokensResponse(_message.Message):
    __slots__ = ("state", "rows", "steps", "logits", "interrupted")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    LOGITS_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    rows: _containers.RepeatedCompositeFieldContainer[RowTokens]
    steps: int
    logits: _generation_pb2.Logits
    interrupted: bool
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[RowTokens, _Mapping]]] = ..., steps: _Optional[int] = ..., logits: _Optional[_Union[_generation_pb2.Logits, _Mapping]] = ..., interrupted: bool = ...) -> None: ...

class GetNextTokensRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class GetNextTokensResponse(_message.Message):
    __slots__ = ("state", "next_tokens")
    STATE_FIELD_NUMBER: _ClassVar[int]
    NEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    next_tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., next_tokens: _Optional[_Iterable[int]] = ...) -> None: ...

class GetSequenceRequest(_message.Message):
    __slots__ = ("session_id", "row", "start", "return_text")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    RETURN_TEXT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    row: int
    start: int
    return_text: bool
    def __init__(self, session_id: _Optional[str] = ..., row: _Optional[int] = ..., start: _Optional[int] = ..., return_text: bool = ...) -> None: ...

class GetSequenceResponse(_message.Message):
    __slots__ = ("state", "token_ids", "text")
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    text: str
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., token_ids: _Optional[_Iterable[int]] = ..., text: _Optional[str] = ...) -> None: ...

class GetTokenCountRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class GetTokenCountResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ...) -> None: ...

class RewindToRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "expected_length", "length", "row", "seed")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    expected_length: int
    length: int
    row: int
    seed: int
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_length: _Optional[int] = ..., length: _Optional[int] = ..., row: _Optional[int] = ..., seed: _Optional[int] = ...) -> None: ...

class RewindToResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ...) -> None: ...

class GetLogitsRequest(_message.Message):
    __slots__ = ("session_id", "selector")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    selector: _generation_pb2.LogitsSelector
    def __init__(self, session_id: _Optional[str] = ..., selector: _Optional[_Union[_generation_pb2.LogitsSelector, _Mapping]] = ...) -> None: ...

class GetLogitsResponse(_message.Message):
    __slots__ = ("state", "logits")
    STATE_FIELD_NUMBER: _ClassVar[int]
    LOGITS_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    logits: _generation_pb2.Logits
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., logits: _Optional[_Union[_generation_pb2.Logits, _Mapping]] = ...) -> None: ...

class SetLogitsRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "expected_length", "edits")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    EDITS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    expected_length: int
    edits: _containers.RepeatedCompositeFieldContainer[_generation_pb2.LogitsEdit]
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_length: _Optional[int] = ..., edits: _Optional[_Iterable[_Union[_generation_pb2.LogitsEdit, _Mapping]]] = ...) -> None: ...

class SetLogitsResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ...) -> None: ...

class SetInputsRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "expected_length", "inputs")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    expected_length: int
    inputs: _containers.RepeatedCompositeFieldContainer[_types_pb2.NamedTensor]
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_length: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[_types_pb2.NamedTensor, _Mapping]]] = ...) -> None: ...

class SetInputsResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ...) -> None: ...

class SetModelInputRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "expected_length", "input")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    expected_length: int
    input: _types_pb2.NamedTensor
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_length: _Optional[int] = ..., input: _Optional[_Union[_types_pb2.NamedTensor, _Mapping]] = ...) -> None: ...

class SetModelInputResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ...) -> None: ...

class GetInputRequest(_message.Message):
    __slots__ = ("session_id", "name")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    name: str
    def __init__(self, session_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetInputResponse(_message.Message):
    __slots__ = ("state", "input")
    STATE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    input: _types_pb2.NamedTensor
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., input: _Optional[_Union[_types_pb2.NamedTensor, _Mapping]] = ...) -> None: ...

class GetOutputRequest(_message.Message):
    __slots__ = ("session_id", "name")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    name: str
    def __init__(self, session_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetOutputResponse(_message.Message):
    __slots__ = ("state", "output")
    STATE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    output: _types_pb2.NamedTensor
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., output: _Optional[_Union[_types_pb2.NamedTensor, _Mapping]] = ...) -> None: ...

class SetActiveAdapterRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "expected_length", "adapter", "recompute")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    expected_length: int
    adapter: str
    recompute: bool
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_length: _Optional[int] = ..., adapter: _Optional[str] = ..., recompute: bool = ...) -> None: ...

class SetActiveAdapterResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ...) -> None: ...

class SetRuntimeOptionRequest(_message.Message):
    __slots__ = ("session_id", "key", "value")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    key: str
    value: str
    def __init__(self, session_id: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class SetRuntimeOptionResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ...) -> None: ...

class InterruptRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class InterruptResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ...) -> None: ...

class AttachSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class AttachSessionResponse(_message.Message):
    __slots__ = ("state", "generation_config")
    STATE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    state: SessionState
    generation_config: _generation_pb2.GenerationConfig
    def __init__(self, state: _Optional[_Union[SessionState, _Mapping]] = ..., generation_config: _Optional[_Union[_generation_pb2.GenerationConfig, _Mapping]] = ...) -> None: ...

class LogitsHookReply(_message.Message):
    __slots__ = ("edits", "stop_rows")
    EDITS_FIELD_NUMBER: _ClassVar[int]
    STOP_ROWS_FIELD_NUMBER: _ClassVar[int]
    edits: _containers.RepeatedCompositeFieldContainer[_generation_pb2.LogitsEdit]
    stop_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, edits: _Optional[_Iterable[_Union[_generation_pb2.LogitsEdit, _Mapping]]] = ..., stop_rows: _Optional[_Iterable[int]] = ...) -> None: ...

class GrantCredits(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: int
    def __init__(self, events: _Optional[int] = ...) -> None: ...

class ConverseRequest(_message.Message):
    __slots__ = ("operation_id", "credits", "create", "attach", "append_tokens", "generate_tokens", "rewind_to", "get_logits", "set_logits", "fork", "get_sequence", "get_next_tokens", "get_token_count", "set_inputs", "set_model_input", "get_input", "get_output", "set_active_adapter", "set_runtime_option", "interrupt", "close", "generate_next_token", "logits_hook_reply", "grant_credits")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    APPEND_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GENERATE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REWIND_TO_FIELD_NUMBER: _ClassVar[int]
    GET_LOGITS_FIELD_NUMBER: _ClassVar[int]
    SET_LOGITS_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    GET_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    GET_NEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GET_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SET_INPUTS_FIELD_NUMBER: _ClassVar[int]
    SET_MODEL_INPUT_FIELD_NUMBER: _ClassVar[int]
    GET_INPUT_FIELD_NUMBER: _ClassVar[int]
    GET_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SET_ACTIVE_ADAPTER_FIELD_NUMBER: _ClassVar[int]
    SET_RUNTIME_OPTION_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    GENERATE_NEXT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGITS_HOOK_REPLY_FIELD_NUMBER: _ClassVar[int]
    GRANT_CREDITS_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    credits: int
    create: CreateSessionRequest
    attach: AttachSessionRequest
    append_tokens: AppendTokensRequest
    generate_tokens: GenerateTokensRequest
    rewind_to: RewindToRequest
    get_logits: GetLogitsRequest
    set_logits: SetLogitsRequest
    fork: ForkSessionRequest
    get_sequence: GetSequenceRequest
    get_next_tokens: GetNextTokensRequest
    get_token_count: GetTokenCountRequest
    set_inputs: SetInputsRequest
    set_model_input: SetModelInputRequest
    get_input: GetInputRequest
    get_output: GetOutputRequest
    set_active_adapter: SetActiveAdapterRequest
    set_runtime_option: SetRuntimeOptionRequest
    interrupt: InterruptRequest
    close: CloseSessionRequest
    generate_next_token: GenerateNextTokenRequest
    logits_hook_reply: LogitsHookReply
    grant_credits: GrantCredits
    def __init__(self, operation_id: _Optional[int] = ..., credits: _Optional[int] = ..., create: _Optional[_Union[CreateSessionRequest, _Mapping]] = ..., attach: _Optional[_Union[AttachSessionRequest, _Mapping]] = ..., append_tokens: _Optional[_Union[AppendTokensRequest, _Mapping]] = ..., generate_tokens: _Optional[_Union[GenerateTokensRequest, _Mapping]] = ..., rewind_to: _Optional[_Union[RewindToRequest, _Mapping]] = ..., get_logits: _Optional[_Union[GetLogitsRequest, _Mapping]] = ..., set_logits: _Optional[_Union[SetLogitsRequest, _Mapping]] = ..., fork: _Optional[_Union[ForkSessionRequest, _Mapping]] = ..., get_sequence: _Optional[_Union[GetSequenceRequest, _Mapping]] = ..., get_next_tokens: _Optional[_Union[GetNextTokensRequest, _Mapping]] = ..., get_token_count: _Optional[_Union[GetTokenCountRequest, _Mapping]] = ..., set_inputs: _Optional[_Union[SetInputsRequest, _Mapping]] = ..., set_model_input: _Optional[_Union[SetModelInputRequest, _Mapping]] = ..., get_input: _Optional[_Union[GetInputRequest, _Mapping]] = ..., get_output: _Optional[_Union[GetOutputRequest, _Mapping]] = ..., set_active_adapter: _Optional[_Union[SetActiveAdapterRequest, _Mapping]] = ..., set_runtime_option: _Optional[_Union[SetRuntimeOptionRequest, _Mapping]] = ..., interrupt: _Optional[_Union[InterruptRequest, _Mapping]] = ..., close: _Optional[_Union[CloseSessionRequest, _Mapping]] = ..., generate_next_token: _Optional[_Union[GenerateNextTokenRequest, _Mapping]] = ..., logits_hook_reply: _Optional[_Union[LogitsHookReply, _Mapping]] = ..., grant_credits: _Optional[_Union[GrantCredits, _Mapping]] = ...) -> None: ...

class StepEvent(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[RowTokens]
    def __init__(self, rows: _Optional[_Iterable[_Union[RowTokens, _Mapping]]] = ...) -> None: ...

class LogitsHookCall(_message.Message):
    __slots__ = ("logits",)
    LOGITS_FIELD_NUMBER: _ClassVar[int]
    logits: _generation_pb2.Logits
    def __init__(self, logits: _Optional[_Union[_generation_pb2.Logits, _Mapping]] = ...) -> None: ...

class ConverseResponse(_message.Message):
    __slots__ = ("operation_id", "final", "error", "step", "logits_hook_call", "create", "attach", "append_tokens", "generate_tokens", "rewind_to", "get_logits", "set_logits", "fork", "get_sequence", "get_next_tokens", "get_token_count", "set_inputs", "set_model_input", "get_input", "get_output", "set_active_adapter", "set_runtime_option", "interrupt", "close", "generate_next_token")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    LOGITS_HOOK_CALL_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    APPEND_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GENERATE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REWIND_TO_FIELD_NUMBER: _ClassVar[int]
    GET_LOGITS_FIELD_NUMBER: _ClassVar[int]
    SET_LOGITS_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    GET_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    GET_NEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GET_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SET_INPUTS_FIELD_NUMBER: _ClassVar[int]
    SET_MODEL_INPUT_FIELD_NUMBER: _ClassVar[int]
    GET_INPUT_FIELD_NUMBER: _ClassVar[int]
    GET_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SET_ACTIVE_ADAPTER_FIELD_NUMBER: _ClassVar[int]
    SET_RUNTIME_OPTION_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    GENERATE_NEXT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    operation_id: int
    final: bool
    error: _types_pb2.OperationError
    step: StepEvent
    logits_hook_call: LogitsHookCall
    create: CreateSessionResponse
    attach: AttachSessionResponse
    append_tokens: AppendTokensResponse
    generate_tokens: GenerateTokensResponse
    rewind_to: RewindToResponse
    get_logits: GetLogitsResponse
    set_logits: SetLogitsResponse
    fork: ForkSessionResponse
    get_sequence: GetSequenceResponse
    get_next_tokens: GetNextTokensResponse
    get_token_count: GetTokenCountResponse
    set_inputs: SetInputsResponse
    set_model_input: SetModelInputResponse
    get_input: GetInputResponse
    get_output: GetOutputResponse
    set_active_adapter: SetActiveAdapterResponse
    set_runtime_option: SetRuntimeOptionResponse
    interrupt: InterruptResponse
    close: CloseSessionResponse
    generate_next_token: GenerateNextTokenResponse
    def __init__(self, operation_id: _Optional[int] = ..., final: bool = ..., error: _Optional[_Union[_types_pb2.OperationError, _Mapping]] = ..., step: _Optional[_Union[StepEvent, _Mapping]] = ..., logits_hook_call: _Optional[_Union[LogitsHookCall, _Mapping]] = ..., create: _Optional[_Union[CreateSessionResponse, _Mapping]] = ..., attach: _Optional[_Union[AttachSessionResponse, _Mapping]] = ..., append_tokens: _Optional[_Union[AppendTokensResponse, _Mapping]] = ..., generate_tokens: _Optional[_Union[GenerateTokensResponse, _Mapping]] = ..., rewind_to: _Optional[_Union[RewindToResponse, _Mapping]] = ..., get_logits: _Optional[_Union[GetLogitsResponse, _Mapping]] = ..., set_logits: _Optional[_Union[SetLogitsResponse, _Mapping]] = ..., fork: _Optional[_Union[ForkSessionResponse, _Mapping]] = ..., get_sequence: _Optional[_Union[GetSequenceResponse, _Mapping]] = ..., get_next_tokens: _Optional[_Union[GetNextTokensResponse, _Mapping]] = ..., get_token_count: _Optional[_Union[GetTokenCountResponse, _Mapping]] = ..., set_inputs: _Optional[_Union[SetInputsResponse, _Mapping]] = ..., set_model_input: _Optional[_Union[SetModelInputResponse, _Mapping]] = ..., get_input: _Optional[_Union[GetInputResponse, _Mapping]] = ..., get_output: _Optional[_Union[GetOutputResponse, _Mapping]] = ..., set_active_adapter: _Optional[_Union[SetActiveAdapterResponse, _Mapping]] = ..., set_runtime_option: _Optional[_Union[SetRuntimeOptionResponse, _Mapping]] = ..., interrupt: _Optional[_Union[InterruptResponse, _Mapping]] = ..., close: _Optional[_Union[CloseSessionResponse, _Mapping]] = ..., generate_next_token: _Optional[_Union[GenerateNextTokenResponse, _Mapping]] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("model", "inputs", "generation_config", "adapter", "skip_text")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    SKIP_TEXT_FIELD_NUMBER: _ClassVar[int]
    model: str
    inputs: _containers.RepeatedCompositeFieldContainer[_types_pb2.RowInput]
    generation_config: _generation_pb2.GenerationConfig
    adapter: str
    skip_text: bool
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[_types_pb2.RowInput, _Mapping]]] = ..., generation_config: _Optional[_Union[_generation_pb2.GenerationConfig, _Mapping]] = ..., adapter: _Optional[str] = ..., skip_text: bool = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("step", "summary")
    STEP_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    step: StepEvent
    summary: RowSummary
    def __init__(self, step: _Optional[_Union[StepEvent, _Mapping]] = ..., summary: _Optional[_Union[RowSummary, _Mapping]] = ...) -> None: ...

class RowSummary(_message.Message):
    __slots__ = ("row", "token_ids", "text", "finish_reason", "stop_string", "prompt_tokens", "seed")
    ROW_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_STRING_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    row: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    text: str
    finish_reason: _types_pb2.FinishReason
    stop_string: str
    prompt_tokens: int
    seed: int
    def __init__(self, row: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., text: _Optional[str] = ..., finish_reason: _Optional[_Union[_types_pb2.FinishReason, str]] = ..., stop_string: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., seed: _Optional[int] = ...) -> None: ...
