"""What the server logs: one JSON object per line on stderr, or plain lines for people.

Every record made while a call is served carries the call's id (`call`), so that one call's lines can be found;
and, where calls are traced, the trace's (`trace_id`).
"""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar

from pythonjsonlogger.json import JsonFormatter

from service.tracing import current_span

current_call: ContextVar[str] = ContextVar("current_call", default="")
"""Id of the call that this task serves: its x-request-id metadata, or one made here."""


class _CallFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if call := current_call.get():
            record.call = call
        if trace_id := current_span.get().trace_id:
            record.trace_id = trace_id
        return True


class _TextFormatter(logging.Formatter):
    """Lines for people, with the call's id at the end."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        call = getattr(record, "call", "")
        return f"{text} (call {call})" if call else text


def configure(level: str, style: str) -> None:
    """Sends every logger to stderr. `level` as in ServerConfig.log_level, `style` as in log_format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_CallFilter())
    if style == "json":
        handler.setFormatter(
            JsonFormatter(
                "{asctime}{levelname}{name}{message}",
                style="{",
                datefmt="%Y-%m-%dT%H:%M:%S%z",
                rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
            )
        )
    else:
        handler.setFormatter(_TextFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
