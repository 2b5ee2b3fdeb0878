"""Streamed generation: what `tokens` and `text` ask for, and how they go on after their stream is lost.

A lost stream ends its generation at a token boundary, with tokens the client may not have seen. The request id finds
them: asked again under the same id, the server gives the answer of the operation that was cut off. Knows nothing of
transports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tokenloom import _convert as convert
from tokenloom import _session_calls as calls
from tokenloom import edit, types
from tokenloom._call import Call, Script, new_request_id
from tokenloom._exchange import LogitsHook
from tokenloom.errors import FailedPrecondition, StreamLost, TokenloomError, Unavailable
from tokenloom.v1 import generator_pb2 as pb

_DELAYS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds to wait before each further attempt to attach again, where nothing came in between."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A generate operation for a Converse stream."""

    call: Call[types.Generated]
    hook: LogitsHook | None = None
    credits: int | None = None


def generate_tokens(
    steps: int | None = None,
    *,
    prompt: types.Prompt | None = None,
    edits: Sequence[edit.LogitsEdit] = (),
    return_logits: bool = False,
    top_k: int | None = None,
    token_ids: types.Tokens | None = None,
    dtype: Any = np.float32,
    skip_text: bool = False,
    expected_length: int | None = None,
    logits_hook: LogitsHook | None = None,
    credits: int | None = None,
) -> Streamed:
    """As `Session.generate_tokens`, but iterate over the reply for the steps as they come.

    logits_hook: a function to call with the logits before each step. credits: steps that may be under way without
    having been iterated over; generation waits for a slower reader. None: no such limit.
    """
    call = calls.generate_tokens(
        steps,
        prompt=prompt,
        edits=edits,
        return_logits=return_logits,
        top_k=top_k,
        token_ids=token_ids,
        dtype=dtype,
        skip_text=skip_text,
        expected_length=expected_length,
    )
    if logits_hook is not None:
        selector = convert.selector(logits_hook.top_k, logits_hook.token_ids, logits_hook.dtype)
        assert isinstance(call.request, pb.GenerateTokensRequest)
        call.request.logits_hook.selector.CopyFrom(selector)
    return Streamed(call, logits_hook, credits)


@dataclass(slots=True)
class Generation:
    """A streamed generation: how much of it is still to be asked for, and what has come of the part asked for."""

    steps: int | None
    prompt: types.Prompt | None
    edits: Sequence[edit.LogitsEdit]
    hook: LogitsHook | None
    skip_text: bool
    row: int = 0
    is_lost: bool = False
    """Whether a stream broke, so that `recover` has to come before `ask`."""
    _is_finished: bool = False
    _request_id: str = ""
    _seen: dict[int, tuple[int, int]] = field(default_factory=dict)  # row: tokens, characters of text
    _failures: int = 0

    def ask(self) -> Streamed | None:
        """The operation for what is left; None where nothing is."""
        if self._is_finished:
            return None
        self._request_id, self._seen = new_request_id(), {}
        asked = generate_tokens(
            self.steps,
            prompt=self.prompt,
            edits=self.edits,
            skip_text=self.skip_text,
            logits_hook=self.hook,
        )
        asked.call.request.request_id = self._request_id  # type: ignore[attr-defined]
        return asked

    def receive(self, step: types.Step) -> None:
        """Note a step that reached the reader."""
        self._failures = 0
        for token in step.tokens:
            count, characters = self._seen.get(token.row, (0, 0))
            self._seen[token.row] = (count + 1, characters + len(token.text))

    def delay(self, error: TokenloomError) -> float:
        """Seconds to wait before going on after this error; raises it where that is no use.

        SESSION_ATTACHED right after a loss means that the server has not noticed the loss yet.
        """
        is_attached = isinstance(error, FailedPrecondition) and error.reason == "SESSION_ATTACHED"
        goes_on = isinstance(error, StreamLost) or (self.is_lost and (is_attached or isinstance(error, Unavailable)))
        if self._failures == len(_DELAYS) or not goes_on:
            raise error
        self.is_lost = True
        self._failures += 1
        return _DELAYS[self._failures - 1]

    def recover(self) -> Script[list[types.Step]]:
        """The steps that were made but not seen. After it, `ask` asks for the rest."""
        yield calls.interrupt()  # Where the server has not noticed the loss, the operation still runs.
        call = calls.generate_tokens(0, prompt=self.prompt, edits=self.edits, skip_text=self.skip_text)
        call.request.request_id = self._request_id  # type: ignore[attr-defined]
        made: types.Generated = yield call
        self.prompt, self.edits = None, ()
        if self.steps is not None:
            self.steps -= made.steps
        missed = list(_unseen(made.rows, self._seen))
        self.is_lost = False
        self._is_finished = self.steps == 0 or bool(made.rows and all(row.finish_reason for row in made.rows))
        return missed


def tokens(
    steps: int | None = None,
    *,
    prompt: types.Prompt | None = None,
    edits: Sequence[edit.LogitsEdit] = (),
    logits_hook: LogitsHook | None = None,
    skip_text: bool = False,
) -> Generation:
    """Generate, and iterate over the tokens of all rows as they come. Leaving the loop ends the generation.

    steps: the most to make; None: until every row finishes. prompt: appended first. edits: made to the logits of the
    first step. logits_hook: a function called with the logits before each step. skip_text: leave the text out.

    A stream that is lost on the way is attached again and nothing is missing or doubled. What was generated stays in
    the session whatever happens. Operations of the session that are called inside the loop wait for the end of the
    generation; `interrupt` does not.

    Raises, when iterated, what `append_tokens`, `set_logits` and `generate_next_token` raise; FailedPrecondition
    (SESSION_ATTACHED) where another stream holds the session; StreamLost where attaching again failed too.
    """
    return Generation(steps, prompt, edits, logits_hook, skip_text)


def text(
    steps: int | None = None,
    *,
    row: int = 0,
    prompt: types.Prompt | None = None,
    edits: Sequence[edit.LogitsEdit] = (),
    logits_hook: LogitsHook | None = None,
) -> Generation:
    """Generate, and iterate over the text of one row as it comes: whole characters, up to a stop string.

    As `tokens` otherwise. All rows are generated; `row` says which one's text is given.
    """
    return Generation(steps, prompt, edits, logits_hook, False, row)


def _unseen(rows: Sequence[types.RowOutput], seen: dict[int, tuple[int, int]]) -> Iterable[types.Step]:
    """The tokens past those that were seen, as steps; the text that was not seen comes with the last of each row."""
    pending: dict[int, list[types.Token]] = {}
    for output in rows:
        count, characters = seen.get(output.row, (0, 0))
        ids = output.token_ids[count:].tolist()
        pending[output.row] = [types.Token(output.row, token, "", None) for token in ids[:-1]]
        pending[output.row] += [
            types.Token(output.row, token, output.text[characters:], output.finish_reason) for token in ids[-1:]
        ]
    for index in range(max((len(row) for row in pending.values()), default=0)):
        yield types.Step(tuple(row[index] for row in pending.values() if index < len(row)))
