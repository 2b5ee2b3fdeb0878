"""LoRA adapters: loading, switching in the middle of a sequence, and never the base model by accident."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from driver import ADAPTERS, LLAMA, LORA, Session, load_model, prompt, raises, running

from runtime import Engine, Model, ModelOptions
from runtime import operations as ops
from runtime.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound

A, B = ADAPTERS / "adapter_a.onnx_adapter", ADAPTERS / "adapter_b.onnx_adapter"
NEVER_DONE = {"min_new_tokens": 10_000}


@pytest.fixture(scope="module")
def lora() -> Model:
    return load_model(LORA)


@pytest.fixture
def adapted(lora: Model) -> Iterator[Engine]:
    """Adapters a and b are loaded."""
    with running(lora) as engine:
        engine.load_adapter("a", A)
        engine.load_adapter("b", B)
        yield engine
    for info in lora.adapters.list():
        lora.adapters.unload(info.name)


def test_each_adapter_gives_other_logits_and_the_base_model_its_own(adapted: Engine, llama: Model) -> None:
    base, a, b = (Session(adapted, prompt(6), adapter=name).logits() for name in ("", "a", "b"))
    assert not np.allclose(base, a, atol=0.1)
    assert not np.allclose(base, b, atol=0.1)
    assert not np.allclose(a, b, atol=0.1)
    with running(llama) as plain:
        np.testing.assert_allclose(base, Session(plain, prompt(6)).logits(), atol=1e-4)


def test_sessions_on_different_adapters_side_by_side_get_what_each_gets_alone(adapted: Engine, lora: Model) -> None:
    names = ["", "a", "b", "a", "", "b"]
    inputs = [prompt(3 + row, row) for row in range(6)]
    expected = []
    for name, tokens in zip(names, inputs, strict=True):
        session = Session(adapted, tokens, adapter=name, **NEVER_DONE)
        expected.append(session.tokens(10))
        session.close()
    sessions = [Session(adapted, t, adapter=name, **NEVER_DONE) for name, t in zip(names, inputs, strict=True)]
    steps = [session.start(ops.Generate, steps=10) for session in sessions]
    assert [one.result().rows[0].token_ids for one in steps] == expected


def test_a_switch_keeps_what_was_computed_and_changes_what_comes(adapted: Engine) -> None:
    """Computed or not, the last position is computed again with the new adapter."""
    switched = Session(adapted, prompt(6), adapter="a", **NEVER_DONE)
    switched.generate(3)
    before = switched.logits()
    read = switched.fork()
    after = switched.set_adapter("b").logits()
    assert switched.state.adapter == "b"
    assert not np.allclose(before, after, atol=0.1)
    whole = Session(adapted, switched.sequence(), adapter="b", **NEVER_DONE)
    assert not np.allclose(whole.logits(), after, atol=1e-3)  # earlier positions are still those of a
    np.testing.assert_array_equal(read.set_adapter("b").logits(), after)


def test_reading_before_a_switch_changes_nothing(adapted: Engine) -> None:
    read, unread = (Session(adapted, prompt(6), adapter="a", **NEVER_DONE) for _ in range(2))
    for session in (read, unread):
        session.generate(2)
    read.logits()
    np.testing.assert_array_equal(read.set_adapter("b").logits(), unread.set_adapter("b").logits())


def test_a_switch_with_recompute_is_as_if_it_had_always_been(adapted: Engine) -> None:
    session = Session(adapted, prompt(6), adapter="a", **NEVER_DONE)
    session.set_adapter("b", recompute=True)
    fresh = Session(adapted, prompt(6), adapter="b", **NEVER_DONE)
    np.testing.assert_array_equal(session.logits(), fresh.logits())
    assert session.tokens(5) == fresh.tokens(5)


def test_recompute_without_a_switch_undoes_an_earlier_one(adapted: Engine) -> None:
    session = Session(adapted, prompt(6), adapter="a", **NEVER_DONE).set_adapter("b")
    session.set_adapter("b", recompute=True)
    np.testing.assert_array_equal(session.logits(), Session(adapted, prompt(6), adapter="b").logits())


def test_a_switch_to_the_same_adapter_keeps_the_logits(adapted: Engine) -> None:
    session = Session(adapted, prompt(6), adapter="a").force(77)
    assert session.set_adapter("a").tokens(1) == [77]


def test_a_switched_session_is_the_same_after_parking_where_nothing_may_be_kept(lora: Model) -> None:
    """Its tokens and kinds are not enough to compute it again, so its keys and values are kept whatever the budget."""
    model = Model.load(lora.config.graph.parent, options=ModelOptions(threads=1, slots=1))
    tokens = []
    for crowded in (False, True):
        with running(model, host_cache_bytes=0) as engine:
            engine.load_adapter("a", A)
            session = Session(engine, prompt(6), **NEVER_DONE).set_adapter("a")
            session.generate(3)
            if crowded:
                Session(engine, prompt(9)).logits()
                assert session.refresh().parked
            tokens.append(session.tokens(5))
            session.close()
            engine.unload_adapter("a")
    assert tokens[0] == tokens[1]


def test_names_that_are_not_there_are_errors_and_never_the_base_model(adapted: Engine) -> None:
    session = Session(adapted, prompt(6), adapter="a")
    with raises(NotFound, reason="ADAPTER_NOT_FOUND"):
        session.set_adapter("c")
    assert session.refresh().adapter == "a"
    adapted.load_adapter("adapter_a", A)
    with pytest.raises(NotFound, match="did you mean 'adapter_a'"):
        session.set_adapter("adapter_x")


def test_an_adapter_in_use_cannot_be_unloaded(adapted: Engine) -> None:
    """Case 21."""
    session = Session(adapted, prompt(6), adapter="a")
    assert {info.name: info.sessions for info in adapted.adapters()} == {"a": 1, "b": 0}
    with raises(FailedPrecondition, reason="ADAPTER_IN_USE"):
        adapted.unload_adapter("a")
    session.set_adapter("")
    adapted.unload_adapter("a")
    with raises(NotFound, reason="ADAPTER_NOT_FOUND"):
        adapted.unload_adapter("a")
    with raises(NotFound, reason="ADAPTER_NOT_FOUND"):
        session.set_adapter("a")
    adapted.load_adapter("a", A)


def test_loading_and_unloading_in_turns_leaves_only_the_last_one_active(adapted: Engine) -> None:
    """Case 22. What was bound with one adapter is never run for another of the same name."""
    expected = {path: Session(adapted, prompt(4), adapter=name).logits() for name, path in (("a", A), ("b", B))}
    for turn in range(50):
        path = (A, B)[turn % 2]
        adapted.load_adapter("turn", path)
        session = Session(adapted, prompt(4), adapter="turn", **NEVER_DONE)
        np.testing.assert_array_equal(session.logits(), expected[path])
        session.generate(1)
        session.close()
        adapted.unload_adapter("turn")
    assert [info.name for info in adapted.adapters()] == ["a", "b"]


def test_an_adapter_tells_its_size_and_file(adapted: Engine) -> None:
    info = adapted.adapters()[0]
    assert (info.name, info.path) == ("a", A.name)
    assert 0 < info.size_bytes <= A.stat().st_size


def test_a_name_can_be_loaded_once(adapted: Engine) -> None:
    with pytest.raises(AlreadyExists):
        adapted.load_adapter("a", B)


@pytest.mark.parametrize("name", ["", "a b", "x" * 64, "../a"])
def test_names_that_cannot_be_are_refused(adapted: Engine, name: str) -> None:
    with raises(InvalidArgument, field="adapter"):
        adapted.load_adapter(name, A)


def test_files_that_are_no_adapters_of_this_model_are_refused(adapted: Engine, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        adapted.load_adapter("c", tmp_path / "nothing.onnx_adapter")
    broken = tmp_path / "broken.onnx_adapter"
    broken.write_bytes(A.read_bytes()[:100])
    with raises(InvalidArgument, field="path"):
        adapted.load_adapter("c", broken)
    with raises(InvalidArgument, field="path"):
        adapted.load_adapter("c", ADAPTERS.parent / "genai_config.json")


def test_a_model_without_adapter_inputs_takes_none(engine: Engine) -> None:
    assert engine.model.name == LLAMA
    with raises(FailedPrecondition, reason="ADAPTERS_UNSUPPORTED"):
        engine.load_adapter("a", A)
