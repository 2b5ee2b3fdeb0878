"""The Models service: what the server can run. Loading and unloading block, so they happen in worker threads."""

from __future__ import annotations

import asyncio

from runtime.errors import InvalidArgument
from service.convert.fields import duration, path
from service.convert.models import from_adapter, from_model, from_tensor_infos
from service.interceptor import Context
from service.paging import page
from service.state import ServerState
from service.version import VERSION
from tokenloom.v1 import models_pb2 as pb
from tokenloom.v1 import models_pb2_grpc


class ModelsServicer(models_pb2_grpc.ModelsServicer):
    """See protos/tokenloom/v1/models.proto for what each method promises."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._registry = server.registry

    async def GetServerInfo(self, request: pb.GetServerInfoRequest, context: Context) -> pb.GetServerInfoResponse:
        config = self._server.config
        return pb.GetServerInfoResponse(
            version=VERSION,
            instance_id=self._server.instance_id,
            max_sessions=config.max_sessions,
            max_queued_operations=config.max_queued_operations,
            max_message_bytes=config.max_message_bytes,
            default_idle_timeout=duration(config.default_idle_timeout),
            max_idle_timeout=duration(config.max_idle_timeout),
            default_model=self._registry.default_model,
            features=config.features,
        )

    async def ListModels(self, request: pb.ListModelsRequest, context: Context) -> pb.ListModelsResponse:
        models = [engine.model for engine in self._registry.engines()]
        models, next_page = page(models, lambda model: model.name, request.page_size, request.page_token)
        return pb.ListModelsResponse(models=map(from_model, models), next_page_token=next_page)

    async def GetModel(self, request: pb.GetModelRequest, context: Context) -> pb.GetModelResponse:
        model = self._registry.engine(request.model).model
        return pb.GetModelResponse(
            model=from_model(model),
            inputs=from_tensor_infos(model.inputs.values()),
            outputs=from_tensor_infos(model.outputs.values()),
        )

    async def LoadModel(self, request: pb.LoadModelRequest, context: Context) -> pb.LoadModelResponse:
        engine = await asyncio.to_thread(self._registry.load, request.model, path(request.path))
        return pb.LoadModelResponse(model=from_model(engine.model))

    async def UnloadModel(self, request: pb.UnloadModelRequest, context: Context) -> pb.UnloadModelResponse:
        if not request.model:
            raise InvalidArgument("model", request.model, "the name of a loaded model; none is unloaded by default")
        await asyncio.to_thread(self._registry.unload, request.model)
        return pb.UnloadModelResponse()

    async def ListAdapters(self, request: pb.ListAdaptersRequest, context: Context) -> pb.ListAdaptersResponse:
        adapters = await asyncio.to_thread(self._registry.engine(request.model).adapters)
        adapters, next_page = page(adapters, lambda adapter: adapter.name, request.page_size, request.page_token)
        return pb.ListAdaptersResponse(adapters=map(from_adapter, adapters), next_page_token=next_page)

    async def LoadAdapter(self, request: pb.LoadAdapterRequest, context: Context) -> pb.LoadAdapterResponse:
        load = self._registry.load_adapter
        adapter = await asyncio.to_thread(load, request.model, request.adapter, path(request.path))
        return pb.LoadAdapterResponse(adapter=from_adapter(adapter))

    async def UnloadAdapter(self, request: pb.UnloadAdapterRequest, context: Context) -> pb.UnloadAdapterResponse:
        engine = self._registry.engine(request.model)
        await asyncio.to_thread(engine.unload_adapter, request.adapter)
        return pb.UnloadAdapterResponse()
