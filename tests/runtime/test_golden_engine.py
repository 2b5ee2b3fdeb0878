"""Recorded requests of onnxruntime-genai's Engine, which batches as this one does: the same tokens for each request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from driver import Session, raises
from replay import cases, ids, settings_of

from runtime import Engine
from runtime import operations as ops
from runtime.errors import InvalidArgument, TokenloomError
from runtime.operations import FinishReason

EOS = 2
ENGINE = {case["id"]: case for case in cases("engine")}
ENGINE_SETTINGS = {
    "do_sample": "do_sample",
    "max_generated_tokens": "max_new_tokens",
    "min_generated_tokens": "min_new_tokens",
    "max_session_tokens": "max_length",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "repetition_penalty": "repetition_penalty",
    "stop_strings": "stop_strings",
}
NOT_THERE_YET = {"engine-018": "no_repeat_ngram_size", "engine-033": "no_repeat_ngram_size"}
STOP_STRINGS = ids("engine", 19, 20, 21, 23, 24)
"""Refused in the recording, which was made without a tokenizer; here they stop."""


def turns(case: dict[str, Any]) -> Iterator[tuple[str, list[int], dict[str, Any], bool]]:
    """(request, tokens, settings, whether it was refused) of each turn."""
    of_request = {step["step"][1]: step["step"][2] for step in case["trace"] if step["step"][0] == "request"}
    for step in case["trace"]:
        if step["step"][0] == "turn":
            _, request, _, settings = step["step"]
            given = {**of_request[request], **settings}
            named = {ENGINE_SETTINGS[name]: value for name, value in given.items()}
            yield request, step.get("ids", [39]), named, "error_kind" in step


@pytest.mark.parametrize("name", sorted(ENGINE.keys() - NOT_THERE_YET.keys() - STOP_STRINGS))
def test_requests_in_one_batch_get_the_recorded_tokens(engine: Engine, name: str) -> None:
    """All turns at once. Turns that were refused are refused."""
    case = ENGINE[name]
    pending = []
    for request, tokens, settings, refused in turns(case):
        inputs = {0: np.array(tokens, np.int64)}
        if refused:
            with pytest.raises(TokenloomError):
                Session(engine, **settings).do(ops.Generate, inputs=inputs, steps=1)
        else:
            session = Session(engine, **settings)
            pending.append((request, session, session.start(ops.Generate, inputs=inputs)))
    recorded = {request: list(by_turn.values()) for request, by_turn in case["tokens"].items()}
    for request, session, generate in pending:
        output = generate.result().rows[0]
        expected = recorded[request].pop(0)
        ended = output.finish_reason is FinishReason.EOS
        closed = any(step["step"] == ["close", request] for step in case["trace"])
        assert output.token_ids[: len(expected)] == expected
        assert closed or output.token_ids[len(expected) :] == ([EOS] if ended else [])
        session.close()


@pytest.mark.parametrize("name", sorted(STOP_STRINGS))
def test_stop_strings_end_the_turns_that_were_refused(engine: Engine, name: str) -> None:
    ((_, tokens, settings, refused),) = turns(ENGINE[name])
    assert refused
    tokenizer = engine.tokenizer
    unstopped = Session(engine, tokens, max_new_tokens=30)
    text = tokenizer.decode(unstopped.tokens(None))
    output = Session(engine, tokens, **settings).generate(None).rows[0]
    found = min((text.find(stop) for stop in settings["stop_strings"] if stop in text), default=None)
    assert (output.finish_reason is FinishReason.STOP_STRING) == (found is not None)
    assert output.text == text[:found]


@pytest.mark.parametrize("name", sorted(NOT_THERE_YET))
def test_settings_of_requests_that_are_not_there_yet_are_refused_by_name(name: str) -> None:
    (settings,) = (step["step"][3] for step in ENGINE[name]["trace"] if step["step"][0] == "turn")
    with raises(InvalidArgument, field=NOT_THERE_YET[name]):
        settings_of({key: value for key, value in settings.items() if key not in ENGINE_SETTINGS})
