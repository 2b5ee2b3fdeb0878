"""Models, adapters, the tokenizer and one-shot generation, for both clients."""

from __future__ import annotations

from typing import Any

import pytest

from tokenloom import FinishReason, errors


def test_the_server_tells_its_version_and_limits(client: Any) -> None:
    info = client.server_info()
    assert info.version and info.instance_id
    assert info.default_model == "tiny"
    assert info.max_message_bytes == 64 * 1024 * 1024
    assert info.max_idle_timeout >= info.default_idle_timeout


def test_models_are_listed_and_described(client: Any) -> None:
    assert {model.name for model in client.list_models()} >= {"tiny", "gpt2"}
    model = client.get_model("tiny")
    assert (model.type, model.vocab_size, model.device) == ("llama", 512, "cpu")
    assert "input_ids" in [tensor.name for tensor in model.inputs]
    assert "logits" in [tensor.name for tensor in model.outputs]
    assert client.get_model().name == "tiny"


def test_models_are_loaded_and_unloaded(client: Any) -> None:
    client.load_model("another", "tiny-gpt2")
    with pytest.raises(errors.AlreadyExists):
        client.load_model("another", "tiny-gpt2")
    client.unload_model("another")
    with pytest.raises(errors.NotFound):
        client.get_model("another")


def test_adapters_are_loaded_listed_and_unloaded(client: Any) -> None:
    loaded = client.load_adapter("adapter_a.onnx_adapter", "a", model="tiny")
    assert loaded.size_bytes > 0
    assert [adapter.name for adapter in client.list_adapters("tiny")] == ["a"]
    client.unload_adapter("a", model="tiny")
    assert client.list_adapters("tiny") == []
    with pytest.raises(errors.PermissionDenied):
        client.load_adapter("../../../conftest.py", "a", model="tiny")


def test_sessions_are_listed_and_closed_by_id(client: Any) -> None:
    session = client.create_session("def", model="gpt2")
    assert session.id in [state.session_id for state in client.list_sessions("gpt2")]
    assert session.id not in [state.session_id for state in client.list_sessions("tiny")]
    client.close_session(session.id)
    assert client.list_sessions("gpt2") == []


def test_every_page_of_a_list_is_asked_for(client: Any) -> None:
    ids = {client.create_session("def", model="gpt2").id for _ in range(3)}
    try:
        assert {state.session_id for state in client.list_sessions("gpt2")} == ids
    finally:
        for session_id in ids:
            client.close_session(session_id)


def test_text_becomes_tokens_and_comes_back(client: Any) -> None:
    texts = ["def main():", "naïve 日本 🎉"]
    sequences = client.encode_batch(texts, model="tiny")
    assert client.decode_batch(sequences, model="tiny") == texts
    assert client.encode(texts[0], model="tiny").tolist() == sequences[0].tolist()
    assert client.decode(sequences[1], model="tiny") == texts[1]


def test_special_tokens_are_left_out_of_text_unless_asked_for(client: Any) -> None:
    user = int(client.get_token_ids(["<|user|>"], model="tiny")[0])
    assert client.decode([user], model="tiny") == ""
    assert client.decode([user], model="tiny", skip_special_tokens=False) == "<|user|>"


def test_the_chat_template_makes_text_and_tokens(client: Any) -> None:
    prompt = client.apply_chat_template([{"role": "user", "content": "hi"}], model="tiny")
    assert prompt.text == "<|user|>hi<|end|><|assistant|>"
    assert client.decode(prompt.token_ids, model="tiny", skip_special_tokens=False) == prompt.text
    without = client.apply_chat_template([{"role": "user", "content": "hi"}], model="tiny", add_generation_prompt=False)
    assert without.text == "<|user|>hi<|end|>"


def test_unknown_tokens_are_refused(client: Any) -> None:
    with pytest.raises(errors.InvalidArgument):
        client.get_token_ids(["no such token"], model="tiny")
    with pytest.raises(errors.InvalidArgument) as caught:
        client.decode([5, 512], model="tiny")
    assert "512" in caught.value.message


def test_one_shot_generation_gives_tokens_as_they_come_and_a_summary_per_row(client: Any) -> None:
    stream = client.generate(["def main(", "class"], model="tiny", max_new_tokens=5)
    tokens = list(stream)
    summaries = stream.results()
    assert [summary.row for summary in summaries] == [0, 1]
    for summary in summaries:
        of_row = [token for token in tokens if token.row == summary.row]
        assert [token.token_id for token in of_row] == summary.token_ids.tolist()
        assert "".join(token.text for token in of_row) == summary.text
        assert summary.finish_reason is FinishReason.LENGTH
        assert summary.prompt_tokens == len(client.encode(["def main(", "class"][summary.row], model="tiny"))


def test_one_shot_generation_takes_tokens_and_messages(client: Any) -> None:
    tokens = client.encode("def main(", model="tiny")
    by_tokens = client.generate(tokens, model="tiny", max_new_tokens=5).results()
    by_text = client.generate("def main(", model="tiny", max_new_tokens=5).results()
    assert by_tokens[0].token_ids.tolist() == by_text[0].token_ids.tolist()


def test_chat_gives_the_text_of_an_answer(client: Any) -> None:
    messages = [{"role": "user", "content": "hi"}]
    summary = client.generate([messages], model="tiny", max_new_tokens=5).results()[0]
    assert "".join(client.chat(messages, model="tiny", max_new_tokens=5)) == summary.text


def test_a_one_shot_generation_can_be_cancelled(client: Any) -> None:
    stream = client.generate("def", model="tiny", do_sample=True, temperature=100.0, seed=5)
    next(iter(stream))
    stream.cancel()
    with pytest.raises(errors.Cancelled):
        stream.results()


def test_errors_of_a_one_shot_generation_keep_their_details(client: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        client.generate("def", model="tiny", temperature=-1.0).results()
    assert caught.value.reason == "FIELD_INVALID"
    assert caught.value.field_violations[0].field == "generation_config.temperature"
