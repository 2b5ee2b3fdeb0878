"""What each operation does to its session.

A handler is a generator: it changes the session, yields what it must wait for (`runtime.session.Need`), and returns the
operation's result. Whatever it raises is the operation's error; between two yields it either changes nothing or leaves
the session at a token boundary. Handlers never run the model's decode and prefill themselves: the engine does, for many
sessions at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from runtime.errors import (
    ContextLengthExceeded,
    FailedPrecondition,
    InvalidArgument,
    TokenloomError,
    Unimplemented,
)
from runtime.logits_edits import check_edit, check_selector, check_tokens, edited, is_complete, select
from runtime.model import Model
from runtime.operations import (
    Append,
    Create,
    FinishReason,
    Generate,
    Generated,
    GetLogits,
    GetNextTokens,
    GetSequence,
    GetState,
    LogitsEdit,
    LogitsSelector,
    Rewind,
    RowOutput,
    RowToken,
    SelectedLogits,
    SessionCreated,
    SetAdapter,
    SetLogits,
    SetRuntimeOption,
    StepResult,
    TokenArray,
    Value,
)
from runtime.sampler import row_seed
from runtime.sequence import Sequence as Row
from runtime.session import Active, Handler, NeedAnswer, NeedCredit, NeedLogits, NeedTokens, Session
from runtime.text import RowText

RUNTIME_OPTIONS: dict[str, tuple[str, ...]] = {
    "terminate_session": ("0", "1"),
    "enable_profiling": ("0", "1"),
    "cuda_graph": ("0", "1"),
}
"""Keys of SetRuntimeOption and their values."""


class Interrupted(Exception):
    """Thrown into the handler of a generate or append to end it at a token boundary, with its result so far."""


# --- appending, reading, rewinding -----------------------------------------------------------------------------------


def create(session: Session, operation: Create, model: Model) -> Handler:
    """The first operation of a session that was just made."""
    if operation.inputs:
        append_rows(session, operation.inputs, model)
        yield NeedLogits(rows_with_tokens(session))
    return SessionCreated(session.snapshot(), session.parameters.as_config())


def append(session: Session, operation: Append, model: Model) -> Handler:
    """Interrupted, it has appended and leaves the computing to who needs it. Failed, it has appended nothing."""
    before = [(row, row.length, row.finish_reason, row.stop_string) for row in session.rows]
    next_tokens = session.next_tokens
    append_rows(session, operation.inputs, model)
    try:
        yield NeedLogits([session.rows[row] for row in operation.inputs])
    except Interrupted:
        pass
    except TokenloomError:
        for row, length, finish_reason, stop_string in before:
            if row.length > length:
                row.rewind(length)
                row.finish(finish_reason, stop_string)
        session.next_tokens = next_tokens
        raise
    return Value(session.snapshot(), None)


def append_rows(session: Session, inputs: Mapping[int, TokenArray], model: Model) -> None:
    """Appends to the rows named, all or none."""
    if not inputs:
        raise InvalidArgument("inputs", [], "at least one row")
    for row, tokens in inputs.items():
        check_row("inputs.row", row, session)
        if not len(tokens):
            raise InvalidArgument(f"inputs[{row}]", [], "at least one token")
        check_tokens(f"inputs[{row}].tokens", tokens, model.vocab_size)
        length = session.rows[row].length
        if length + len(tokens) > session.parameters.max_length:
            raise ContextLengthExceeded(length, len(tokens), session.parameters.max_length, row)
    for row, tokens in inputs.items():
        session.rows[row].append(tokens)
        if session.rows[row].length == session.parameters.max_length:
            session.rows[row].finish(FinishReason.LENGTH)
    session.next_tokens = None


def rewind(session: Session, operation: Rewind, model: Model) -> Handler:
    if operation.row is not None:
        check_row("row", operation.row, session)
    rows = session.rows if operation.row is None else [session.rows[operation.row]]
    if operation.length < 0:
        raise InvalidArgument("length", operation.length, "0 or more")
    for row in rows:
        if operation.length > row.length:
            raise FailedPrecondition(
                "REWIND_BEYOND_LENGTH",
                f"row {row.row} has {row.length} tokens; it cannot be rewound to {operation.length}",
                length=row.length,
                row=row.row,
            )
    if operation.seed is not None:
        reseed(session, operation.seed, rows)
    for row in rows:
        row.rewind(operation.length)
    session.next_tokens = None
    return Value(session.snapshot(), None)
    yield  # a handler is a generator, also where it waits for nothing


def reseed(session: Session, seed: int, rows: Sequence[Row]) -> None:
    """Gives rows the seed from here on; the session's own where it is for all of them."""
    if not 0 <= seed < 2**64:
        raise InvalidArgument("seed", seed, f"an integer in [0, {2**64 - 1}]")
    if len(rows) == len(session.rows):
        session.parameters = replace(session.parameters, seed=seed)
    for row in rows:
        row.seed = row_seed(seed, row.row)


def get_state(session: Session, operation: GetState, model: Model) -> Handler:
    return Value(session.snapshot(), None)
    yield


def get_next_tokens(session: Session, operation: GetNextTokens, model: Model) -> Handler:
    if session.next_tokens is None:
        raise FailedPrecondition("NOTHING_GENERATED", "no token was generated since the last append or rewind")
    return Value(session.snapshot(), session.next_tokens)
    yield


def get_sequence(session: Session, operation: GetSequence, model: Model) -> Handler:
    check_row("row", operation.row, session)
    row = session.rows[operation.row]
    if not 0 <= operation.start <= row.length:
        raise InvalidArgument("start", operation.start, f"an index in [0, {row.length}]")
    return Value(session.snapshot(), row.tokens[operation.start :].copy())
    yield


# --- logits ----------------------------------------------------------------------------------------------------------


def get_logits(session: Session, operation: GetLogits, model: Model) -> Handler:
    check_selector(operation.selector, model.vocab_size)
    check_not_empty(session.rows)
    yield NeedLogits(session.rows)
    return Value(session.snapshot(), read_logits(session, operation.selector))


def set_logits(session: Session, operation: SetLogits, model: Model) -> Handler:
    if not operation.edits:
        raise InvalidArgument("edits", [], "at least one edit")
    check_edits(session, operation.edits, model)
    check_not_empty(session.rows)
    yield from apply_edits(session, operation.edits, model)
    return Value(session.snapshot(), None)


def check_edits(session: Session, edits: Sequence[LogitsEdit], model: Model) -> None:
    for index, edit in enumerate(edits):
        check_edit(edit, index, len(session.rows), model.vocab_size)


def apply_edits(session: Session, edits: Sequence[LogitsEdit], model: Model) -> Handler:
    """Changes the logits of the next step, of all rows or none. Edits that set everything need no model run."""
    rows = session.unfinished
    if not is_complete(edits):
        yield NeedLogits(rows)
    blank = np.zeros(model.vocab_size, np.float32)
    changed = [edited(blank if row.logits is None else row.logits, row.row, edits) for row in rows]
    for row, logits in zip(rows, changed, strict=True):
        row.logits = logits


def read_logits(session: Session, selector: LogitsSelector) -> SelectedLogits:
    """The logits of all rows, which are fresh: [rows, vocab_size] or a selection. Never a view of the rows' own."""
    logits = np.stack([row.logits for row in session.rows if row.logits is not None])
    return select(logits, selector)


# --- generating ------------------------------------------------------------------------------------------------------


def generate(session: Session, operation: Generate, model: Model, active: Active) -> Handler:
    """Appends, edits, steps and reads, in this order. Interrupted at any wait, it gives what was made so far."""
    check_generate(session, operation, model)
    active.credits = operation.window
    outputs: dict[int, RowOutput] = {}
    steps, logits, interrupted = 0, None, False
    try:
        if operation.inputs:
            append_rows(session, operation.inputs, model)
        close_full_rows(session)
        if session.unfinished or operation.steps == 0:
            check_not_empty(session.rows)
        else:
            raise FailedPrecondition("SESSION_DONE", "every row is finished; append or rewind to go on")
        if operation.edits:
            yield from apply_edits(session, operation.edits, model)
        while session.unfinished and (operation.steps is None or steps < operation.steps):
            yield from step(session, operation, model, active, outputs)
            steps += 1
        if operation.read is not None:
            yield NeedLogits(session.rows)
            logits = read_logits(session, operation.read)
    except Interrupted:
        interrupted = True
    next_tokens = session.next_tokens or ()
    rows = tuple(outputs[row] for row in sorted(outputs))
    return Generated(session.snapshot(), steps, rows, next_tokens, logits, interrupted)


def check_generate(session: Session, operation: Generate, model: Model) -> None:
    if operation.steps is not None and operation.steps < 0:
        raise InvalidArgument("steps", operation.steps, "0 or more")
    if operation.window is not None and operation.window < 1:
        raise InvalidArgument("credits", operation.window, "1 or more")
    for selector in (operation.read, operation.hook):
        if selector is not None:
            check_selector(selector, model.vocab_size)
    check_edits(session, operation.edits, model)


def step(session: Session, operation: Generate, model: Model, active: Active, outputs: dict[int, RowOutput]) -> Handler:
    """One token for every unfinished row, told to the operation's sink."""
    if active.credits == 0:
        yield NeedCredit()
    yield NeedLogits(session.unfinished)
    if operation.hook is not None:
        yield from ask_hook(session, operation, model, outputs)
        if not session.unfinished:
            return
    rows = session.unfinished
    tokens = yield NeedTokens(rows)
    pad = session.parameters.pad_token_id
    next_tokens = [pad] * len(session.rows)
    told = []
    for row, token in zip(rows, tokens, strict=True):
        next_tokens[row.row] = token
        told.append(take_token(session, row, token, model))
        collect(outputs, told[-1])
    session.next_tokens = tuple(next_tokens)
    if active.credits is not None:
        active.credits -= 1
    operation.sink.on_step(StepResult(tuple(told)))


def ask_hook(session: Session, operation: Generate, model: Model, outputs: dict[int, RowOutput]) -> Handler:
    """Sends the logits and waits for the client's changes to them. Changes that cannot be made end the operation."""
    assert operation.hook is not None
    yield NeedLogits(session.rows)
    operation.sink.on_hook(read_logits(session, operation.hook))
    answer = yield NeedAnswer()
    check_edits(session, answer.edits, model)
    for index in answer.stop_rows:
        check_row("stop_rows", index, session)
    for index in answer.stop_rows:
        row = session.rows[index]
        if not row.is_done:
            row.finish(FinishReason.STOPPED)
            outputs.setdefault(index, RowOutput(index)).finish_reason = FinishReason.STOPPED
    if answer.edits and session.unfinished:
        yield from apply_edits(session, answer.edits, model)


def take_token(session: Session, row: Row, token: int, model: Model) -> RowToken:
    """Adds a sampled token to its row and decides whether the row is finished."""
    parameters = session.parameters
    if row.text is None and model.tokenizer is not None:
        row.text = RowText(model.tokenizer, row.tokens, row.new_tokens, parameters.stop_strings)
    row.add_generated(token)
    text, stop_string = "", None
    if row.text is not None:
        delta = row.text.push(token)
        text, stop_string = delta.text, delta.stop_string
    if token in parameters.eos_token_id:
        row.finish(FinishReason.EOS)
    elif stop_string is not None:
        row.finish(FinishReason.STOP_STRING, stop_string)
    elif is_full(session, row):
        row.finish(FinishReason.LENGTH)
    if row.is_done and row.text is not None and stop_string is None:
        delta = row.text.finish()
        text += delta.text
        if delta.stop_string is not None:
            row.finish(FinishReason.STOP_STRING, delta.stop_string)
    return RowToken(row.row, token, text, row.finish_reason, row.stop_string)


def collect(outputs: dict[int, RowOutput], told: RowToken) -> None:
    output = outputs.setdefault(told.row, RowOutput(told.row))
    output.token_ids.append(told.token_id)
    output.text += told.text
    output.finish_reason = told.finish_reason


def is_full(session: Session, row: Row) -> bool:
    limit = session.parameters.max_new_tokens
    return row.length >= session.parameters.max_length or (limit is not None and row.new_tokens >= limit)


def close_full_rows(session: Session) -> None:
    """A row rewound to a length at which a limit holds is finished before its first step."""
    for row in session.unfinished:
        if row.length and is_full(session, row):
            row.finish(FinishReason.LENGTH)


# --- settings --------------------------------------------------------------------------------------------------------


def set_adapter(session: Session, operation: SetAdapter, model: Model) -> Handler:
    if operation.adapter:
        model.adapters.parameters(operation.adapter)
    if operation.adapter != session.adapter:
        session.adapter = operation.adapter
        started = any(row.length for row in session.rows)
        session.exact_recompute = session.exact_recompute and not (started and not operation.recompute)
        for row in session.rows:
            row.forget_logits()
    if operation.recompute:
        session.exact_recompute = not session.extra_inputs
        for row in session.rows:
            row.forget_computed()
    return Value(session.snapshot(), None)
    yield


def set_runtime_option(session: Session, operation: SetRuntimeOption, model: Model) -> Handler:
    if operation.key not in RUNTIME_OPTIONS:
        raise InvalidArgument("key", operation.key, f"one of {', '.join(RUNTIME_OPTIONS)}")
    allowed = RUNTIME_OPTIONS[operation.key]
    if operation.value not in allowed:
        raise InvalidArgument("value", operation.value, f"one of {', '.join(allowed)} for {operation.key}")
    if operation.key == "cuda_graph" and operation.value == "1" and model.device.name == "cuda":
        raise Unimplemented("capturing CUDA graphs is not implemented; leave cuda_graph at 0")
    session.options[operation.key] = operation.value
    return Value(session.snapshot(), None)
    yield


# --- shared ----------------------------------------------------------------------------------------------------------


def check_row(field: str, row: int, session: Session) -> None:
    if not 0 <= row < len(session.rows):
        raise InvalidArgument(field, row, f"a row in [0, {len(session.rows)})")


def check_not_empty(rows: Sequence[Row]) -> None:
    for row in rows:
        if not row.length:
            raise FailedPrecondition("SESSION_EMPTY", f"row {row.row} has no tokens; append some first", row=row.row)


def rows_with_tokens(session: Session) -> list[Row]:
    return [row for row in session.rows if row.length]
