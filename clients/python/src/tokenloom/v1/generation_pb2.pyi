from tokenloom.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EditOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EDIT_OPERATION_UNSPECIFIED: _ClassVar[EditOperation]
    EDIT_OPERATION_SET: _ClassVar[EditOperation]
    EDIT_OPERATION_ADD: _ClassVar[EditOperation]
    EDIT_OPERATION_MULTIPLY: _ClassVar[EditOperation]
EDIT_OPERATION_UNSPECIFIED: EditOperation
EDIT_OPERATION_SET: EditOperation
EDIT_OPERATION_ADD: EditOperation
EDIT_OPERATION_MULTIPLY: EditOperation

class GenerationConfig(_message.Message):
    __slots__ = ("max_length", "max_new_tokens", "min_new_tokens", "do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "eos_token_id", "pad_token_id", "stop_strings")
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_NEW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MIN_NEW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DO_SAMPLE_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    PAD_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    STOP_STRINGS_FIELD_NUMBER: _ClassVar[int]
    max_length: int
    max_new_tokens: int
    min_new_tokens: int
    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int
    eos_token_id: _containers.RepeatedScalarFieldContainer[int]
    pad_token_id: int
    stop_strings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, max_length: _Optional[int] = ..., max_new_tokens: _Optional[int] = ..., min_new_tokens: _Optional[int] = ..., do_sample: bool = ..., temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., seed: _Optional[int] = ..., eos_token_id: _Optional[_Iterable[int]] = ..., pad_token_id: _Optional[int] = ..., stop_strings: _Optional[_Iterable[str]] = ...) -> None: ...

class LogitsSelector(_message.Message):
    __slots__ = ("top_k", "token_ids", "dtype")
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    top_k: int
    token_ids: _types_pb2.TokenIds
    dtype: _types_pb2.DataType
    def __init__(self, top_k: _Optional[int] = ..., token_ids: _Optional[_Union[_types_pb2.TokenIds, _Mapping]] = ..., dtype: _Optional[_Union[_types_pb2.DataType, str]] = ...) -> None: ...

class Logits(_message.Message):
    __slots__ = ("values", "token_ids")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    values: _types_pb2.Tensor
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Union[_types_pb2.Tensor, _Mapping]] = ..., token_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class SparseEdit(_message.Message):
    __slots__ = ("operation", "token_ids", "values")
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    operation: EditOperation
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, operation: _Optional[_Union[EditOperation, str]] = ..., token_ids: _Optional[_Iterable[int]] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

class LogitsEdit(_message.Message):
    __slots__ = ("row", "dense", "sparse", "allow_mask", "deny_ids")
    ROW_FIELD_NUMBER: _ClassVar[int]
    DENSE_FIELD_NUMBER: _ClassVar[int]
    SPARSE_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MASK_FIELD_NUMBER: _ClassVar[int]
    DENY_IDS_FIELD_NUMBER: _ClassVar[int]
    row: int
    dense: _types_pb2.Tensor
    sparse: SparseEdit
    allow_mask: bytes
    deny_ids: _types_pb2.TokenIds
    def __init__(self, row: _Optional[int] = ..., dense: _Optional[_Union[_types_pb2.Tensor, _Mapping]] = ..., sparse: _Optional[_Union[SparseEdit, _Mapping]] = ..., allow_mask: _Optional[bytes] = ..., deny_ids: _Optional[_Union[_types_pb2.TokenIds, _Mapping]] = ...) -> None: ...
