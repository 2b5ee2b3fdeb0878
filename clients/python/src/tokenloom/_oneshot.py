"""One-shot generation: what both kinds of iterator over its replies keep. Knows nothing of transports."""

from __future__ import annotations

from collections import deque

from tokenloom import _convert as convert
from tokenloom import types
from tokenloom.v1 import generator_pb2 as pb


class OneShot:
    """Tokens not taken yet, and the summaries of rows that have finished."""

    def __init__(self) -> None:
        self.summaries: dict[int, types.RowSummary] = {}
        self._tokens: deque[types.Token] = deque()

    def _receive(self, reply: pb.GenerateResponse) -> None:
        if reply.HasField("step"):
            self._tokens.extend(convert.step(reply.step).tokens)
        else:
            self.summaries[reply.summary.row] = convert.row_summary(reply.summary)

    def _results(self) -> list[types.RowSummary]:
        return [summary for _, summary in sorted(self.summaries.items())]
