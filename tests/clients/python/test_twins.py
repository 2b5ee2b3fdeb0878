"""The synchronous and the asyncio client have the same methods, with the same arguments and documentation."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

import tokenloom
from tokenloom import aio
from tokenloom._channel import service_config

PAIRS = [
    (tokenloom.Client, aio.Client),
    (tokenloom.Session, aio.Session),
    (tokenloom.Conversation, aio.Conversation),
    (tokenloom.TokenStream, aio.TokenStream),
]


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_twins_have_the_same_methods(one: type, other: type) -> None:
    assert public(one).keys() == public(other).keys()
    for name, value in public(one).items():
        twin = public(other)[name]
        assert inspect.getdoc(value) == inspect.getdoc(twin), name
        if callable(value):
            assert inspect.signature(value).parameters == inspect.signature(twin).parameters, name


@pytest.mark.parametrize("kind", [kind for pair in PAIRS for kind in pair] + [tokenloom.Generator, tokenloom.Tokenizer])
def test_every_public_method_is_documented(kind: type) -> None:
    for name, value in public(kind).items():
        assert inspect.getdoc(value), name


def test_only_reads_and_operations_with_a_request_id_are_retried() -> None:
    (policy,) = json.loads(service_config())["methodConfig"]
    retried = {name["method"] for name in policy["name"]}
    assert policy["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
    assert {"GetLogits", "ListSessions", "AppendTokens", "CreateSession", "GenerateNextToken", "Encode"} <= retried
    assert not retried & {"CloseSession", "SetRuntimeOption", "Interrupt", "LoadModel", "UnloadAdapter", "Generate"}
