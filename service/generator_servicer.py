"""The Generator service: each method finds its engine, submits an operation, renders the result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.message import Message

from runtime.errors import TokenloomError
from service.converse import Conversation
from service.convert.settings import from_config
from service.convert.state import from_snapshot
from service.interceptor import Context
from service.one_shot import generate
from service.paging import page
from service.sinks import ReplySink, answer, creation_sink
from service.state import ServerState
from service.target import Target
from service.tracing import current_span
from service.verbs import parse, placed, render
from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import generator_pb2_grpc


class GeneratorServicer(generator_pb2_grpc.GeneratorServicer):
    """See protos/tokenloom/v1/generator.proto for what each method promises."""

    def __init__(self, server: ServerState) -> None:
        self._server = server

    def _target(self, session_id: str) -> Target:
        return Target(self._server, self._server.registry.engine_of(session_id), session_id)

    async def _do(self, request: Message, target: Target, sink: ReplySink | None = None) -> Any:
        sink = sink or ReplySink()
        operation = await parse(request, target, sink)
        span = current_span.get()
        span.asked(operation, target.engine)
        try:
            result = await answer(target.engine, operation, sink)
        except TokenloomError as error:
            raise placed(request, error) from error
        span.answered(result)
        return render(request, result, target)

    async def _of_session(self, request: Any, context: Context) -> Any:
        """Does what a request asks of the session it names."""
        return await self._do(request, self._target(request.session_id))

    # --- sessions ----------------------------------------------------------------------------------------------------

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> Any:
        engine = self._server.registry.engine(request.model)
        target = Target(self._server, engine, session_id="")
        return await self._do(request, target, creation_sink(engine, request.request_id))

    async def ForkSession(self, request: pb.ForkSessionRequest, context: Context) -> Any:
        target = self._target(request.session_id)
        return await self._do(request, target, creation_sink(target.engine, request.request_id))

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        target = self._target(request.session_id)
        session = target.engine.snapshot(request.session_id)
        return pb.GetSessionResponse(
            state=target.state(session.snapshot), generation_config=from_config(session.config)
        )

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        registry = self._server.registry
        engines = [registry.engine(request.model)] if request.model else registry.engines()
        snapshots = [snapshot for engine in engines for snapshot in engine.snapshots()]
        sessions, next_page = page(snapshots, lambda item: item.session_id, request.page_size, request.page_token)
        attached = self._server.attachments
        return pb.ListSessionsResponse(
            sessions=[from_snapshot(session, session.session_id in attached) for session in sessions],
            next_page_token=next_page,
        )

    CloseSession = _of_session

    # --- tokens ------------------------------------------------------------------------------------------------------

    AppendTokens = _of_session
    GenerateNextToken = _of_session
    GenerateTokens = _of_session
    GetNextTokens = _of_session
    GetSequence = _of_session
    GetTokenCount = _of_session
    RewindTo = _of_session

    # --- what is behind them -----------------------------------------------------------------------------------------

    GetLogits = _of_session
    SetLogits = _of_session
    SetInputs = _of_session
    SetModelInput = _of_session
    GetInput = _of_session
    GetOutput = _of_session
    SetActiveAdapter = _of_session
    SetRuntimeOption = _of_session
    Interrupt = _of_session

    # --- streams -----------------------------------------------------------------------------------------------------

    def Converse(
        self, requests: AsyncIterator[pb.ConverseRequest], context: Context
    ) -> AsyncIterator[pb.ConverseResponse]:
        return Conversation(self._server).replies(requests)

    def Generate(self, request: pb.GenerateRequest, context: Context) -> AsyncIterator[pb.GenerateResponse]:
        return generate(self._server, request)
