"""Conversations to prompts: what transformers and onnxruntime-genai render, and what a template may not do."""

import json
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from runtime.chat_template import ChatTemplate
from runtime.errors import FailedPrecondition, InvalidArgument
from runtime.tokenizer import Tokenizer

DATA = Path(__file__).parents[1] / "data"
LLAMA = Tokenizer.load(DATA / "models/tiny-llama")
HELLO = [{"role": "user", "content": "hi"}]


def render(source: str, messages: object = HELLO, **options: object) -> str:
    return ChatTemplate(source, {"bos_token": "<s>"}).render(messages, **options)


@pytest.mark.parametrize(
    "case",
    json.loads((DATA / "golden/streaming/chat_template.json").read_text())["cases"],
    ids=lambda case: case["id"],
)
def test_a_conversation_renders_as_with_transformers_and_the_peer(case: dict) -> None:
    text = LLAMA.apply_chat_template(case["messages"], case["add_generation_prompt"])
    assert text == case["rendered_transformers"] == case["rendered_genai"]
    assert LLAMA.encode(text) == case["ids"]


def test_the_generation_prompt_is_added_by_default() -> None:
    assert LLAMA.apply_chat_template(HELLO) == "<|user|>hi<|end|><|assistant|>"


def load_with(tmp_path: Path, **config: object) -> Tokenizer:
    shutil.copy(DATA / "models/tiny-llama/tokenizer.json", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return Tokenizer.load(tmp_path)


def test_a_template_may_stand_in_the_tokenizer_config(tmp_path: Path) -> None:
    tokenizer = load_with(tmp_path, chat_template="{{ bos_token }}!", bos_token={"content": "<s>"})
    assert tokenizer.has_chat_template
    assert tokenizer.apply_chat_template(HELLO) == "<s>!"


def test_a_template_file_wins_over_the_tokenizer_config(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("file")
    assert load_with(tmp_path, chat_template="config").apply_chat_template(HELLO) == "file"


def test_tools_use_the_template_named_for_them_if_there_is_one(tmp_path: Path) -> None:
    templates = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools[0].name }}"}]
    tokenizer = load_with(tmp_path, chat_template=templates)
    assert tokenizer.apply_chat_template(HELLO) == "plain"
    assert tokenizer.apply_chat_template(HELLO, tools=[{"name": "clock"}]) == "clock"


def test_a_tokenizer_without_a_template_says_so(tmp_path: Path) -> None:
    tokenizer = load_with(tmp_path)
    assert not tokenizer.has_chat_template
    with pytest.raises(FailedPrecondition) as error:
        tokenizer.apply_chat_template(HELLO)
    assert error.value.reason == "NO_CHAT_TEMPLATE"


def test_blocks_leave_no_blank_lines_or_indentation() -> None:
    assert (
        render("{% for m in messages %}\n    {% if true %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n") == "hi\n"
    )


def test_loop_controls_work() -> None:
    skip = "{% if i == 1 %}{% continue %}{% endif %}"
    leave = "{% if i == 3 %}{% break %}{% endif %}"
    assert render("{% for i in range(9) %}" + skip + leave + "{{ i }}{% endfor %}") == "02"


def test_generation_blocks_are_their_body() -> None:
    assert render("a{% generation %}{{ messages[0].content }}{% endgeneration %}b") == "ahib"


def test_tojson_keeps_unicode_key_order_and_html() -> None:
    tools = [{"name": "é<b>", "a": 1}]
    assert render("{{ tools | tojson }}", tools=tools) == '[{"name": "é<b>", "a": 1}]'
    assert render("{{ tools[0] | tojson(indent=1) }}", tools=tools) == '{\n "name": "é<b>",\n "a": 1\n}'


def test_strftime_now_gives_the_date() -> None:
    assert render("{{ strftime_now('%Y') }}") in {str(datetime.now().year), str(datetime.now().year - 1)}


def test_more_variables_reach_the_template() -> None:
    source = "{{ bos_token }}{{ enable_thinking }}{{ tools is none }}{{ documents is none }}{{ nothing }}"
    assert render(source, enable_thinking=False) == "<s>FalseTrueTrue"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].content.missing.attribute }}", "missing"),
        ("{{ messages[0].content + 1 }}", "str"),
        ("{{ 1 // 0 }}", "zero"),
        ("{{ messages | tojson | int('x') + [] }}", "list"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% for i in range(10 ** 9) %}{% endfor %}", "too big"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    ],
)
def test_what_the_template_refuses_or_may_not_do_is_an_error_of_the_messages(source: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^messages: (?s:.)*chat template(?s:.)*{says}"):
        render(source)


def test_a_broken_template_is_an_error_of_the_model_and_only_when_used(tmp_path: Path) -> None:
    tokenizer = load_with(tmp_path, chat_template="{% for %}")
    assert tokenizer.encode("a") == [71]
    with pytest.raises(FailedPrecondition) as error:
        tokenizer.apply_chat_template(HELLO)
    assert error.value.reason == "CHAT_TEMPLATE_INVALID"


@pytest.mark.parametrize(
    ("messages", "field"),
    [([], "messages"), ("hi", "messages"), ({"role": "user"}, "messages"), ([*HELLO, "hi"], r"messages\[1\]")],
)
def test_what_is_no_conversation_is_refused(messages: object, field: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{field}: "):
        render("x", messages)
