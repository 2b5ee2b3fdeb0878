"""One Converse stream without its transport: numbers operations, and sorts what comes back to them.

Whoever owns the transport sends what `start`, `receive` and `took` give and passes on what arrives. It knows nothing of
threads, event loops and channels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from google.protobuf.message import Message

from tokenloom import _convert as convert
from tokenloom import edit, types
from tokenloom._call import Call
from tokenloom.errors import TokenloomError, from_operation_error
from tokenloom.v1 import generator_pb2 as pb

T = TypeVar("T")

# Field of ConverseRequest for each type of request; the reply is in the field of the same name of ConverseResponse.
_FIELDS = {
    field.message_type.name: field.name
    for field in pb.ConverseRequest.DESCRIPTOR.oneofs_by_name["operation"].fields
    if field.message_type is not None
}


@dataclass(frozen=True, slots=True)
class HookReply:
    """Answer of a logits hook: edits for this step, and rows to finish now without sampling."""

    edits: Sequence[edit.LogitsEdit] = ()
    stop_rows: Sequence[int] = ()


HookFunction: TypeAlias = Callable[[Any], HookReply | Sequence[edit.LogitsEdit] | None]


@dataclass(frozen=True, slots=True)
class LogitsHook:
    """A function called with the logits before each step: a remote logits processor or stopping criterion.

    function: gets float [rows, vocab_size] (finished rows included), or SelectedLogits where top_k or token_ids is
    given; returns edits for the step, a HookReply, or None. The other fields are as in `get_logits`.
    """

    function: HookFunction
    top_k: int | None = None
    token_ids: types.Tokens | None = None
    dtype: Any = np.float32

    def answer(self, logits: Any) -> HookReply:
        """What the function says, as a HookReply."""
        said = self.function(logits)
        if isinstance(said, HookReply):
            return said
        return HookReply(edits=said or ())


@dataclass(slots=True)
class Operation(Generic[T]):
    """One operation on its way. Done when `error` or the result is there; `steps` are those not taken yet."""

    operation_id: int
    call: Call[T]
    hook: LogitsHook | None = None
    credits: int | None = None
    steps: deque[types.Step] = field(default_factory=deque)
    reply: Message | None = None
    error: Exception | None = None
    _untold: int = 0
    _rows: dict[int, list[types.Token]] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether the last message is there."""
        return self.reply is not None or self.error is not None

    def result(self) -> T:
        """The result of an operation that is done, or its error."""
        if self.error is not None:
            raise self.error
        result = self.call.decode(self.reply)
        if isinstance(result, types.Generated) and self._rows:
            return replace(result, rows=tuple(self._outputs()))  # A stream tells the tokens step by step only.
        return result

    def _outputs(self) -> Iterator[types.RowOutput]:
        for row, tokens in sorted(self._rows.items()):
            ids, text = convert.tokens([token.token_id for token in tokens]), "".join(token.text for token in tokens)
            yield types.RowOutput(row, ids, text, tokens[-1].finish_reason)

    def _receive_step(self, step: types.Step) -> None:
        self.steps.append(step)
        for token in step.tokens:
            self._rows.setdefault(token.row, []).append(token)


class Exchange:
    """The operations of one stream. on_reply is told every (request, reply) pair."""

    def __init__(self, on_reply: Callable[[Message, Any], None]) -> None:
        self._on_reply = on_reply
        self._last_id = 0
        self._pending: dict[int, Operation[Any]] = {}
        self._failure: TokenloomError | None = None

    def start(
        self, call: Call[T], hook: LogitsHook | None = None, credits: int | None = None
    ) -> tuple[pb.ConverseRequest, Operation[T]]:
        """A new operation and the message that asks for it. On a stream that has ended it has failed at once."""
        self._last_id += 1
        operation = Operation(self._last_id, call, hook, credits)
        if self._failure is not None:
            operation.error = self._failure
        else:
            self._pending[self._last_id] = operation
        message = pb.ConverseRequest(operation_id=self._last_id, credits=credits)
        getattr(message, _FIELDS[call.request.DESCRIPTOR.name]).CopyFrom(call.request)
        return message, operation

    @property
    def is_generating(self) -> bool:
        """Whether an operation that makes steps is on its way."""
        return any(
            isinstance(pending.call.request, pb.GenerateTokensRequest) for pending in list(self._pending.values())
        )

    @property
    def has_ended(self) -> bool:
        """Whether the stream has ended, however it did."""
        return self._failure is not None

    def receive(self, message: pb.ConverseResponse) -> list[pb.ConverseRequest]:
        """Take a message of the server; returns what to send for it."""
        if self._failure is not None:
            return []
        operation = self._pending[message.operation_id]
        kind = message.WhichOneof("result")
        answers: list[pb.ConverseRequest] = []
        if kind == "step":
            operation._receive_step(convert.step(message.step))
        elif kind == "logits_hook_call":
            answers.append(self._call_hook(operation, message.logits_hook_call))
        elif kind == "error":
            operation.error = operation.error or from_operation_error(message.error)
        elif kind is not None:
            operation.reply = getattr(message, kind)
            self._on_reply(operation.call.request, operation.reply)
        if message.final:
            del self._pending[message.operation_id]
            if operation.operation_id == 1 and isinstance(operation.error, TokenloomError):
                self.fail(operation.error)  # The first message opens the stream: the server ends it.
        return answers

    def took(self, operation: Operation[Any]) -> list[pb.ConverseRequest]:
        """Note that a step was taken; returns the credits to send for it. They go out by the half window."""
        if operation.credits is None:
            return []
        operation._untold += 1
        if operation._untold * 2 < operation.credits or operation.is_done:
            return []
        events, operation._untold = operation._untold, 0
        return [pb.ConverseRequest(operation_id=operation.operation_id, grant_credits=pb.GrantCredits(events=events))]

    def fail(self, error: TokenloomError) -> None:
        """The stream has ended: whatever is pending, or starts from now on, fails with this."""
        self._failure = self._failure or error
        for operation in self._pending.values():
            operation.error = operation.error or self._failure
        self._pending.clear()

    def _call_hook(self, operation: Operation[Any], call: pb.LogitsHookCall) -> pb.ConverseRequest:
        assert operation.hook is not None, "the server calls hooks only where one was asked for"
        try:
            answer = operation.hook.answer(convert.logits(call.logits))
            reply = convert.build(pb.LogitsHookReply, edits=answer.edits, stop_rows=answer.stop_rows)
        except Exception as error:  # The caller's own function failed: its caller gets it, and the generation ends.
            operation.error = error
            return self.start(Call(pb.InterruptRequest(), lambda reply: None))[0]
        return pb.ConverseRequest(operation_id=operation.operation_id, logits_hook_reply=reply)
