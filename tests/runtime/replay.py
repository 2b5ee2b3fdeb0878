"""Plays a recorded trace of onnxruntime-genai's Generator on a session and lists where the two differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from driver import MODELS, Session

from runtime import Engine, GenerationConfig
from runtime import operations as ops
from runtime.errors import TokenloomError
from runtime.operations import LogitsEdit

RECORDINGS = MODELS.parent / "golden" / "genai"
LOGITS_TOLERANCE = 1e-4
NOT_SEARCH = {"past_present_share_buffer", "chunk_size", "batch_size"}
"""Options of the recording that say how to compute, not what: here the engine's own business."""


@dataclass(frozen=True)
class Difference:
    """`operation`: its place in the trace. `what`: the field of the record."""

    operation: int
    what: str
    recorded: Any
    ours: Any


def cases(group: str) -> list[dict[str, Any]]:
    return json.loads((RECORDINGS / f"{group}.json").read_text())["cases"]


def ids(group: str, *numbers: int) -> set[str]:
    """Names of the cases of a group."""
    return {f"{group}-{number:03}" for number in numbers}


def settings_of(search: dict[str, Any]) -> dict[str, Any]:
    """Settings of a session from a recording's search options. Raises InvalidArgument for unknown ones."""
    given = {name: value for name, value in search.items() if name not in NOT_SEARCH}
    GenerationConfig.from_mapping(given)
    return given


def replay(engine: Engine, case: dict[str, Any]) -> list[Difference]:
    """Every operation of the trace, in order. Errors are compared by whether there is one."""
    rows = case["search"].get("batch_size", 1)
    session = Session(engine, batch_size=rows, **settings_of(case["search"]))
    differences = []
    for index, record in enumerate(case["trace"]):
        ours = observe(session, record["op"])
        for what, value in ours.items():
            if not same(what, record.get(what), value):
                differences.append(Difference(index, what, record.get(what), value))
    session.close()
    return differences


def observe(session: Session, op: list[Any]) -> dict[str, Any]:
    """Does one operation; what the recording has of it."""
    seen: dict[str, Any] = {"error_kind": None}
    try:
        seen |= perform(session, *op)
    except TokenloomError as error:
        seen["error_kind"] = type(error).__name__
    state = session.refresh()
    return seen | {"token_count": state.length, "is_done": state.is_done, "sequences": session.sequences()}


def perform(session: Session, name: str, *arguments: Any) -> dict[str, Any]:
    match name, *arguments:
        case "append", tokens:
            rows = len(session.state.rows)
            session.append(*(np.reshape(tokens, (rows, -1)).tolist()))
        case ("generate",):
            session.generate(1)
        case "generate_n", steps:
            return {"next_tokens_each": steps_of(session, steps)}
        case ("next_tokens",):
            return {"next_tokens": list(session.do(ops.GetNextTokens).value)}
        case ("get_logits",):
            return {"top": session.logits()}
        case "set_logits_force", tokens:
            session.force(tokens)
        case ("ban_top",):
            best = session.logits(top_k=1)
            banned = session.do(ops.GetLogits, selector=ops.LogitsSelector(top_k=1)).value.token_ids[0]
            assert len(best) == 1
            session.edit(LogitsEdit(token_ids=banned))
            return {"banned": banned.tolist()}
        case "rewind", length:
            session.rewind(length)
        case "set_active_adapter", adapter:
            session.set_adapter(adapter)
        case ("is_done",):
            pass
        case _:
            raise ValueError(f"a trace has an operation {name!r} that is not known")
    return {}


def steps_of(session: Session, steps: int) -> list[list[int]]:
    """Up to so many steps, until done; the next tokens after each."""
    tokens = []
    for _ in range(steps):
        if session.state.is_done:
            break
        tokens.append(list(session.generate(1).next_tokens))
    return tokens


def same(what: str, recorded: Any, ours: Any) -> bool:
    if what == "error_kind":
        return (recorded is None) == (ours is None)
    if what == "top" and recorded is not None:
        return all(
            np.allclose(row[top["ids"]], top["values"], rtol=0, atol=LOGITS_TOLERANCE)
            for row, top in zip(ours, recorded, strict=True)
        )
    return bool(recorded == ours)
