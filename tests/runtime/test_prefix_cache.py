"""What a row begins with is copied from a row that has it, and nobody can tell but by the time it takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from driver import ADAPTERS, EMBEDDED, LORA, Session, load_model, prompt, running, tokens_of
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime import Engine, Model, ModelOptions
from runtime import operations as ops
from runtime.model_store import ModelStore
from runtime.prefix_cache import shared
from runtime.sequence import Kind, Sequence

STEM = prompt(60)
NEVER_DONE = {"min_new_tokens": 10_000}


@pytest.fixture
def fresh(any_model: Model) -> Iterator[Engine]:
    with running(any_model) as engine:
        yield engine


def reused(engine: Engine) -> tuple[int, int, int]:
    stats = engine.stats()
    return stats.prefix_hits, stats.reused_tokens, stats.prefix_misses


def expected(model: Model, *pieces: list[int], steps: int = 3, adapter: str = "") -> tuple[np.ndarray, list[int]]:
    """Logits and tokens of a session that appends these pieces and has to compute them all."""
    with running(model, prefix_cache=False) as engine:
        session = Session(engine, adapter=adapter, **NEVER_DONE)
        for piece in pieces:
            session.append(piece)
        logits = session.logits()
        return logits, session.tokens(steps)


def check(session: Session, *pieces: list[int], adapter: str = "") -> None:
    logits, tokens = expected(session.engine.model, *pieces, adapter=adapter)
    np.testing.assert_array_equal(session.logits(), logits)
    assert session.tokens(len(tokens)) == tokens


# --- where it is found -----------------------------------------------------------------------------------------------


def test_the_beginning_of_an_open_session_is_copied(fresh: Engine) -> None:
    kept = Session(fresh, STEM, **NEVER_DONE)
    before = fresh.stats().prefill_tokens
    session = Session(fresh, [*STEM, 3, 4, 5, 6, 7], **NEVER_DONE)
    assert fresh.stats().prefill_tokens - before == 5
    assert reused(fresh) == (1, 60, 1)
    check(session, [*STEM, 3, 4, 5, 6, 7])
    check(kept, STEM)


def test_the_whole_prompt_is_copied_but_for_its_last_run(fresh: Engine) -> None:
    Session(fresh, STEM)
    before = fresh.stats().prefill_tokens
    session = Session(fresh, STEM, **NEVER_DONE)
    assert fresh.stats().prefill_tokens - before == 2
    check(session, STEM)


def test_a_closed_session_stays_until_its_slot_is_needed(any_model: Model) -> None:
    model = Model.load(any_model.config.graph.parent, options=ModelOptions(threads=1, slots=2))
    with running(model) as engine:
        Session(engine, STEM, **NEVER_DONE).close()
        assert engine.stats().slots_used == 0
        session = Session(engine, [*STEM, 3, 4], **NEVER_DONE)
        assert reused(engine) == (1, 60, 1)
        check(session, [*STEM, 3, 4])
        session.close()
        others = [Session(engine, prompt(40, seed)) for seed in (1, 2)]
        assert not any(other.refresh().parked for other in others)
        check(Session(engine, STEM, **NEVER_DONE), STEM)
        assert reused(engine) == (1, 60, 4)


def test_of_closed_sessions_the_one_used_longest_ago_makes_room(any_model: Model) -> None:
    model = Model.load(any_model.config.graph.parent, options=ModelOptions(threads=1, slots=2))
    with running(model) as engine:
        for tokens in (STEM, prompt(40, 1), [*STEM[:20], 3], prompt(40, 2)):
            Session(engine, tokens).close()
        assert reused(engine)[0] == 1
        Session(engine, prompt(40, 1)).close()
        assert reused(engine)[0] == 1
        Session(engine, prompt(40, 2)).close()
        assert reused(engine)[0] == 2


def test_a_parked_copy_is_as_good_as_a_slot(any_model: Model) -> None:
    model = Model.load(any_model.config.graph.parent, options=ModelOptions(threads=1, slots=1))
    with running(model) as engine:
        parked = Session(engine, STEM, **NEVER_DONE)
        session = Session(engine, [*STEM[:50], 3, 4, 5], **NEVER_DONE)
        assert parked.refresh().parked
        assert reused(engine) == (1, 50, 1)
        check(session, [*STEM[:50], 3, 4, 5])
        check(parked, STEM)


def test_a_session_whose_cache_was_dropped_copies_what_is_there(any_model: Model) -> None:
    model = Model.load(any_model.config.graph.parent, options=ModelOptions(threads=1, slots=2))
    with running(model, host_cache_bytes=0) as engine:
        dropped, kept = Session(engine, STEM, **NEVER_DONE), Session(engine, STEM[:40], **NEVER_DONE)
        other = Session(engine, prompt(20, 1))
        assert dropped.refresh().parked
        kept.refresh()  # so that the other one is parked for the one that comes back
        before = reused(engine)[0]
        check(dropped, STEM)
        assert reused(engine)[0] == before + 1
        other.close()
        check(kept, STEM[:40])


def test_rows_that_begin_alike_compute_it_once(fresh: Engine) -> None:
    """Whether they are one session's or came at the same time: the others wait for the first."""
    rows = [[*STEM, *prompt(6, seed)] for seed in range(8)]
    session = Session(fresh, *rows[:4], **NEVER_DONE)
    sessions = [Session(fresh, **NEVER_DONE) for _ in range(4)]
    appends = [one.start(ops.Append, inputs=tokens_of([row])) for one, row in zip(sessions, rows[4:], strict=True)]
    for pending in appends:
        pending.result()
    assert fresh.stats().prefill_tokens == 60 + 8 * 6
    assert reused(fresh) == (7, 7 * 60, 1)
    logits = session.logits()
    for row, tokens in enumerate(rows[:4]):
        np.testing.assert_array_equal(logits[row : row + 1], expected(fresh.model, tokens)[0])
    for one, tokens in zip(sessions, rows[4:], strict=True):
        check(one, tokens)


def test_what_was_rewound_is_not_found(fresh: Engine) -> None:
    source = Session(fresh, STEM, **NEVER_DONE)
    source.rewind(20).append(prompt(40, 1))
    check(Session(fresh, STEM, **NEVER_DONE), STEM)
    assert reused(fresh) == (1, 20, 1)
    check(source, STEM[:20], prompt(40, 1))


# --- what must be equal ----------------------------------------------------------------------------------------------


def test_generated_tokens_are_no_beginning_of_an_appended_run(fresh: Engine) -> None:
    """They were computed alone, and the run would compute them beside each other."""
    source = Session(fresh, STEM[:30], **NEVER_DONE)
    conversation = STEM[:30] + source.tokens(20)
    check(Session(fresh, [*conversation, 3, 4], **NEVER_DONE), [*conversation, 3, 4])
    assert reused(fresh)[:2] == (1, 30)


def test_where_appends_were_cut_does_not_matter(fresh: Engine) -> None:
    Session(fresh, STEM[:25], **NEVER_DONE).append(STEM[25:])
    check(Session(fresh, STEM[:40], **NEVER_DONE), STEM[:40])
    check(Session(fresh, STEM[:33], **NEVER_DONE).append(STEM[33:50]), STEM[:33], STEM[33:50])
    assert reused(fresh)[0] == 2


def test_single_appends_are_not_taken_for_runs(fresh: Engine) -> None:
    Session(fresh, STEM[:20], **NEVER_DONE).append([STEM[20]]).append(STEM[21:])
    check(Session(fresh, STEM, **NEVER_DONE), STEM)
    assert reused(fresh)[:2] == (1, 20)


def test_another_adapter_is_another_beginning() -> None:
    model = load_model(LORA)
    names = sorted(path.stem for path in ADAPTERS.glob("*.onnx_adapter"))[:2]
    for name in names:
        model.adapters.load(name, ADAPTERS / f"{name}.onnx_adapter")
    with running(model) as engine:
        for adapter in ("", *names):
            Session(engine, STEM, adapter=adapter)
        assert reused(engine) == (0, 0, 3)
        for adapter in ("", *names):
            session = Session(engine, [*STEM, 3, 4], adapter=adapter, **NEVER_DONE)
            check(session, [*STEM, 3, 4], adapter=adapter)
        assert reused(engine)[:2] == (3, 180)


def test_what_was_computed_with_two_adapters_is_nobodys_beginning() -> None:
    model = load_model(LORA)
    name = min(path.stem for path in ADAPTERS.glob("*.onnx_adapter"))
    model.adapters.load(name, ADAPTERS / f"{name}.onnx_adapter")
    with running(model) as engine:
        mixed = Session(engine, STEM[:30], **NEVER_DONE).set_adapter(name).append(STEM[30:])
        for adapter in ("", name):
            session = Session(engine, STEM, adapter=adapter, **NEVER_DONE)
            assert reused(engine)[0] == 0
            check(session, STEM, adapter=adapter)
            session.close()
        for seed in range(model.slots):
            Session(engine, prompt(17, seed + 1))  # take the slots of what was closed
        mixed.set_adapter(name, recompute=True)
        check(mixed, STEM, adapter=name)


def test_an_adapter_that_was_unloaded_leaves_nothing() -> None:
    """Another one may come by its name."""
    model = load_model(LORA)
    first, second = sorted(ADAPTERS.glob("*.onnx_adapter"))[:2]
    with running(model) as engine:
        engine.load_adapter("name", first)
        Session(engine, STEM, adapter="name").close()
        engine.unload_adapter("name")
        engine.load_adapter("name", second)
        session = Session(engine, STEM, adapter="name", **NEVER_DONE)
        assert reused(engine)[0] == 0
        check(session, STEM, adapter="name")


def test_a_model_with_inputs_of_its_own_reuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its positions hold depends on more than tokens."""
    for module in ("prefix_cache", "slot_pool"):
        monkeypatch.setattr(f"runtime.{module}.BLOCK", 2)  # it has ten positions only
    model = load_model(EMBEDDED)
    info = model.extra_inputs["inputs_embeds"]
    with running(model) as engine:
        for _ in range(2):
            session = Session(engine)
            session.do(ops.SetInputs, inputs={"inputs_embeds": np.zeros((1, 8, info.shape[2]), info.dtype)})
            session.append([1, 2, 3, 4, 5, 6, 7, 8])
        assert (engine.stats().prefill_tokens, reused(engine)) == (16, (0, 0, 0))


def test_it_can_be_turned_off(any_model: Model) -> None:
    with running(any_model, prefix_cache=False) as engine:
        Session(engine, STEM).close()
        Session(engine, STEM)
        assert (engine.stats().prefill_tokens, reused(engine)) == (120, (0, 0, 0))


# --- where a beginning may end ---------------------------------------------------------------------------------------


def computed_row(tokens: list[int], cuts: list[int]) -> Sequence:
    """A row that appended runs of these lengths, all computed."""
    row = Sequence(0, 0)
    ends = np.cumsum(cuts)
    for piece in np.split(np.array(tokens[: ends[-1]]), ends[:-1]):
        row.append(piece)
    row.take_prefix(row.length, "")
    return row


@settings(max_examples=300)
@given(
    cuts=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    others=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    limit=st.integers(0, 100),
)
def test_no_run_is_cut_where_the_engine_itself_could_not(cuts: list[int], others: list[int], limit: int) -> None:
    row, other = (computed_row(prompt(100), lengths) for lengths in (cuts, others))
    length = shared(row, other, min(limit, other.length))
    assert 0 <= length <= min(limit, row.length - 1)
    alone = row.kinds <= Kind.SINGLE
    assert (alone[:length] == (other.kinds[:length] <= Kind.SINGLE)).all()
    row.take_prefix(length, "")
    start, count = row.next_run(128)
    assert start == length
    assert alone[start] or count > 1
    assert length == 0 or row.kinds[length - 1] != Kind.RUN_START


# --- the default model -----------------------------------------------------------------------------------------------


@pytest.mark.model
@pytest.mark.parametrize("precision", ["fp32", "uint4"])
def test_the_default_model_gives_the_same_after_a_copy(precision: str) -> None:
    model = Model.load(ModelStore().get(precision=precision), options=ModelOptions(threads=2, max_length=512))
    text = prompt(131, 1, model.vocab_size)
    with running(model) as engine:
        Session(engine, text[:100], **NEVER_DONE).close()
        for length in (99, 100, 101, 102, 117, 131):
            check(Session(engine, text[:length], **NEVER_DONE), text[:length])
        assert reused(engine)[0] == 6
