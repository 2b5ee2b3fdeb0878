"""Conversations to prompt text, with the Jinja template that comes with a model.

Templates are written for transformers, so they find here the same environment: block trimming, loop controls,
`raise_exception`, `strftime_now`, `tojson` that keeps Unicode, and `{% generation %}` blocks. They come with models, so
they run in a sandbox. Knows nothing of tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import Extension
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runtime.errors import FailedPrecondition, InvalidArgument

Message = Mapping[str, Any]
"""One message: "role", "content" and whatever else the template reads."""

_RENDER_ERRORS = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a template raises over messages it does not fit: its own errors, and Python's from its expressions."""


class ChatTemplate:
    """A model's template. `variables` (such as bos_token) are visible to it in every rendering."""

    def __init__(self, source: str, variables: Mapping[str, Any]) -> None:
        self._source = source
        self._variables = dict(variables)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The text of a conversation.

        `tools`: JSON schemas of functions the model may call. `variables`: more names for the template (such as
        enable_thinking); they win over the tokenizer's.
        Raises InvalidArgument (messages) if the template refuses them, FailedPrecondition (CHAT_TEMPLATE_INVALID) if
        the template itself is no valid Jinja.
        """
        _check_messages(messages)
        names = self._variables | variables
        names |= {"messages": messages, "tools": tools, "add_generation_prompt": add_generation_prompt}
        names.setdefault("documents", None)  # templates ask whether it is none
        try:
            return self._template.render(names)
        except _RENDER_ERRORS as error:
            raise InvalidArgument("messages", messages, f"the model's chat template refuses it: {error}") from error

    @cached_property
    def _template(self) -> Template:
        """Compiled on first use: a model whose template is broken can still be used without it."""
        try:
            return _environment().from_string(self._source)
        except TemplateError as error:
            raise FailedPrecondition(
                "CHAT_TEMPLATE_INVALID", f"the model's chat template can't be compiled: {error}"
            ) from error


class _GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}` marks what an assistant says, for training. Here it is only its body."""

    tags = {"generation"}  # noqa: RUF012  (the base class declares it so)

    def parse(self, parser: Parser) -> list[Node]:
        """The nodes between the two tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _GenerationBlock]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own: escapes nothing for HTML, keeps the order of keys and non-ASCII text."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _check_messages(messages: Sequence[Message]) -> None:
    allowed = "a conversation is a sequence of at least one message, each a mapping with a role and content"
    if isinstance(messages, str | bytes | Mapping) or not messages:
        raise InvalidArgument("messages", messages, allowed)
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise InvalidArgument(f"messages[{index}]", message, allowed)
