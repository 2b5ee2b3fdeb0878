"""Metrics: what was done over gRPC is what a scrape says."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from scraping import Scrape
from serving import TIMEOUT, Served, refused, serving, tokens, wait_until

from service.config import ServerConfig
from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import models_pb2

PROMPT = [5, 9, 21, 33]
GENERATOR = "/tokenloom.v1.Generator/"
LASTING = {"min_new_tokens": 400}


@pytest.fixture
def fresh() -> Iterator[Served]:
    """A server that has counted nothing."""
    with serving(metrics_port=0, slots=2) as served:
        yield served


# --- the endpoint ----------------------------------------------------------------------------------------------------


def test_nothing_listens_unless_a_port_is_set(served: Served) -> None:
    assert ServerConfig().metrics_port is None
    assert served.server.metrics_endpoint is None


def test_a_metrics_port_that_is_taken_is_an_error_that_names_it(fresh: Served) -> None:
    assert fresh.server.metrics_endpoint is not None
    port = fresh.server.metrics_endpoint.port
    with pytest.raises(OSError, match=f"{port} for metrics"), serving(metrics_port=port):
        pass


def test_the_server_says_its_version_and_instance(fresh: Served) -> None:
    info = fresh.models.GetServerInfo(models_pb2.GetServerInfoRequest(), timeout=TIMEOUT)
    assert Scrape(fresh)("info", version=info.version, instance_id=info.instance_id) == 1


# --- calls -----------------------------------------------------------------------------------------------------------


def test_calls_are_counted_by_method_and_code(fresh: Served) -> None:
    session = fresh.create(PROMPT)
    for _ in range(3):
        fresh.length(session)
    refused(fresh.generator.RewindTo, pb.RewindToRequest(session_id=session, length=99))
    scrape = Scrape(fresh)
    assert scrape("requests_total", method=GENERATOR + "CreateSession", code="OK") == 1
    assert scrape("requests_total", method=GENERATOR + "GetTokenCount", code="OK") == 3
    assert scrape("requests_total", method=GENERATOR + "RewindTo", code="FAILED_PRECONDITION") == 1
    assert scrape("request_duration_seconds_count") == 5
    assert scrape("requests_in_progress") == 0


def test_errors_are_counted_by_reason_in_calls_and_in_streams(fresh: Served) -> None:
    refused(fresh.generator.GetSequence, pb.GetSequenceRequest(session_id="nobody"))
    stream = fresh.converse()
    stream.create(PROMPT)
    for _ in range(2):
        assert stream.do(rewind_to=pb.RewindToRequest(length=99)).error.reason == "REWIND_BEYOND_LENGTH"
    scrape = Scrape(fresh)
    assert scrape("errors_total", reason="SESSION_NOT_FOUND") == 1
    assert scrape("errors_total", reason="REWIND_BEYOND_LENGTH") == 2
    stream.half_close()
    stream.rest()


def test_an_open_stream_is_in_progress_and_a_cancelled_one_is_counted_as_such(fresh: Served) -> None:
    stream = fresh.converse()
    stream.create(PROMPT)
    assert Scrape(fresh)("requests_in_progress", method=GENERATOR + "Converse") == 1
    stream.cancel()
    wait_until(lambda: Scrape(fresh)("requests_in_progress") == 0, "the stream to end")
    ended = {
        code: Scrape(fresh)("requests_total", method=GENERATOR + "Converse", code=code) for code in ("OK", "CANCELLED")
    }
    assert sum(ended.values()) == 1


# --- tokens and times ------------------------------------------------------------------------------------------------


def test_tokens_in_and_out_are_counted(fresh: Served) -> None:
    session = fresh.create(PROMPT, generation_config=LASTING)
    fresh.generator.AppendTokens(
        pb.AppendTokensRequest(session_id=session, inputs=[tokens([7, 8, 9])]), timeout=TIMEOUT
    )
    refused(fresh.generator.AppendTokens, pb.AppendTokensRequest(session_id=session, inputs=[tokens([10**6])]))
    fresh.generate(session, 5)
    scrape = Scrape(fresh)
    assert scrape("prompt_tokens_total", model_name="tiny-llama") == 7
    assert scrape("generation_tokens_total", model_name="tiny-llama") == 5


def test_each_generate_has_one_first_token_and_a_latency_for_every_other(fresh: Served) -> None:
    session = fresh.create(PROMPT, generation_config=LASTING)
    for steps in (1, 4):
        fresh.generate(session, steps)
    scrape = Scrape(fresh)
    assert scrape("time_to_first_token_seconds_count") == 2
    assert scrape("inter_token_latency_seconds_count") == 3
    assert 0 < scrape("inter_token_latency_seconds_sum") < TIMEOUT


def test_a_one_shot_call_waits_for_its_first_token_from_its_beginning(fresh: Served) -> None:
    list(
        fresh.generator.Generate(
            pb.GenerateRequest(inputs=[tokens(list(range(5, 305)))], generation_config={"max_new_tokens": 3}),
            timeout=TIMEOUT,
        )
    )
    scrape = Scrape(fresh)
    assert scrape("time_to_first_token_seconds_count") == 1
    assert scrape("time_to_first_token_seconds_sum") > scrape("prefill_run_seconds_sum") > 0


def test_the_clients_own_time_is_no_latency_between_tokens(fresh: Served) -> None:
    stream = fresh.converse()
    stream.create(PROMPT, generation_config=LASTING)
    generating = stream.send(credits=1, generate_tokens=pb.GenerateTokensRequest(steps=2))
    assert stream.receive().HasField("step")
    held_since = time.monotonic()
    for _ in range(8):
        fresh.create(list(range(5, 305)))  # what the client does meanwhile
    held = time.monotonic() - held_since
    stream.send(generating, grant_credits=pb.GrantCredits(events=1))
    stream.finals(1)
    after = Scrape(fresh)
    assert after("inter_token_latency_seconds_count") == 1
    assert after("inter_token_latency_seconds_sum") < held / 2
    stream.half_close()
    stream.rest()


def test_operations_are_timed_by_kind_wherever_they_come_from(fresh: Served) -> None:
    stream = fresh.converse()
    session = stream.create(PROMPT)
    stream.do(rewind_to=pb.RewindToRequest(length=2))
    fresh.length(session)
    scrape = Scrape(fresh)
    for operation in ("Create", "Rewind", "GetState"):
        assert scrape("operation_duration_seconds_count", operation=operation) == 1
    stream.half_close()
    stream.rest()


def test_model_runs_are_timed_and_their_rows_counted(fresh: Served) -> None:
    session = fresh.create(PROMPT, PROMPT[::-1], generation_config=LASTING)
    fresh.generate(session, 4)
    scrape = Scrape(fresh)
    assert scrape("prefill_run_seconds_count") == 2
    assert scrape("decode_run_seconds_count") == 3
    assert (scrape("decode_batch_size_count"), scrape("decode_batch_size_sum")) == (3, 6)
    assert scrape("decode_batch_size_bucket", le="1.0") == 0
    assert scrape("decode_batch_size_bucket", le="2.0") == scrape("decode_batch_size_bucket", le="+Inf") == 3
    assert scrape("request_queue_time_seconds_count") == 2
    assert scrape("engine_model_seconds_total") == pytest.approx(
        scrape("prefill_run_seconds_sum") + scrape("decode_run_seconds_sum")
    )


# --- sessions and slots ----------------------------------------------------------------------------------------------


def test_sessions_and_slots_are_what_is_there_now(fresh: Served) -> None:
    sessions = [fresh.create(PROMPT) for _ in range(3)]
    scrape = Scrape(fresh)
    assert scrape("num_sessions", model_name="tiny-llama") == 3
    assert scrape("num_sessions_parked") == 1
    assert scrape("session_parkings_total") == 1
    assert scrape("kv_cache_host_bytes") > 0
    assert (scrape("kv_cache_slots"), scrape("kv_cache_slots_used"), scrape("kv_cache_usage_perc")) == (2, 2, 1)
    for session in sessions:
        fresh.close(session)
    scrape = Scrape(fresh)
    assert (scrape("num_sessions"), scrape("kv_cache_slots_used"), scrape("kv_cache_host_bytes")) == (0, 0, 0)
    assert scrape("sessions_created_total") == 3
    assert scrape("sessions_ended_total", reason="SESSION_CLOSED") == 3


def test_beginnings_that_were_copied_are_counted(fresh: Served) -> None:
    prompt = list(range(5, 105))
    for _ in range(2):
        fresh.create(prompt)
    scrape = Scrape(fresh)
    assert (scrape("prefix_cache_misses_total"), scrape("prefix_cache_hits_total")) == (1, 1)
    assert 0 < scrape("prefix_cache_reused_tokens_total") < len(prompt)


def test_an_operation_that_its_sessions_end_cut_off_is_timed_too(fresh: Served) -> None:
    stream = fresh.converse()
    session = stream.create(PROMPT, generation_config=LASTING)
    stream.send(generate_tokens=pb.GenerateTokensRequest(steps=400))
    assert stream.receive().HasField("step")
    fresh.close(session)
    assert Scrape(fresh)("operation_duration_seconds_count", operation="Generate") == 1
    stream.cancel()


def test_sessions_that_idled_out_are_told_apart(fresh: Served) -> None:
    fresh.create(PROMPT, idle_timeout={"nanos": 1_000_000})
    wait_until(lambda: Scrape(fresh)("num_sessions") == 0, "the session to expire")
    assert Scrape(fresh)("sessions_ended_total", reason="SESSION_EXPIRED") == 1


def test_sessions_at_work_and_those_that_wait_for_slots_are_counted(fresh: Served) -> None:
    busy = [fresh.converse() for _ in range(3)]
    for stream in busy:
        stream.create(PROMPT, generation_config=LASTING)
        stream.send(generate_tokens=pb.GenerateTokensRequest(steps=400))
    wait_until(lambda: Scrape(fresh)("num_sessions_waiting") == 1, "a session to wait for a slot")
    assert Scrape(fresh)("num_sessions_running") >= 2
    for stream in busy:
        stream.cancel()


def test_every_model_has_its_own_series(fresh: Served) -> None:
    fresh.models.LoadModel(models_pb2.LoadModelRequest(model="tiny-gpt2"), timeout=TIMEOUT)
    session = fresh.create(PROMPT, model="tiny-gpt2")
    scrape = Scrape(fresh)
    assert scrape("prompt_tokens_total", model_name="tiny-gpt2") == len(PROMPT)
    assert scrape("prompt_tokens_total", model_name="tiny-llama") == 0
    fresh.close(session)
    fresh.models.UnloadModel(models_pb2.UnloadModelRequest(model="tiny-gpt2"), timeout=TIMEOUT)
    assert Scrape(fresh)("kv_cache_slots", model_name="tiny-gpt2") == 0
