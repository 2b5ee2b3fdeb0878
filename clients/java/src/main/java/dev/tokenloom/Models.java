package dev.tokenloom;

import dev.tokenloom.v1.GetModelRequest;
import dev.tokenloom.v1.ListAdaptersRequest;
import dev.tokenloom.v1.ListAdaptersResponse;
import dev.tokenloom.v1.ListModelsRequest;
import dev.tokenloom.v1.ListModelsResponse;
import dev.tokenloom.v1.LoadAdapterRequest;
import dev.tokenloom.v1.LoadModelRequest;
import dev.tokenloom.v1.ModelsGrpc;
import dev.tokenloom.v1.UnloadAdapterRequest;
import dev.tokenloom.v1.UnloadModelRequest;
import java.util.List;

/** The models of a server and their LoRA adapters; made by {@link TokenloomClient#models}. "" names the default model. */
public final class Models {
    private final Transport transport;

    Models(Transport transport) {
        this.transport = transport;
    }

    /** The models that are loaded, by name. */
    public List<ModelInfo> list() {
        return Pages.all(
                token -> transport.call(
                        ModelsGrpc.getListModelsMethod(),
                        ListModelsRequest.newBuilder().setPageSize(Pages.SIZE).setPageToken(token).build()),
                reply -> reply.getModelsList().stream().map(Convert::model).toList(),
                ListModelsResponse::getNextPageToken);
    }

    /** One loaded model, with the signature of its graph. */
    public ModelInfo get(String model) {
        var reply = transport.call(
                ModelsGrpc.getGetModelMethod(), GetModelRequest.newBuilder().setModel(model).build());
        return Convert.model(reply.getModel(), reply.getInputsList(), reply.getOutputsList());
    }

    /** Load a folder of the server's model directories under a name. */
    public ModelInfo load(String model, String path) {
        LoadModelRequest request = LoadModelRequest.newBuilder().setModel(model).setPath(path).build();
        return Convert.model(transport.call(ModelsGrpc.getLoadModelMethod(), request).getModel());
    }

    /** Unload a model. FAILED_PRECONDITION with reason MODEL_IN_USE while it has sessions. */
    public void unload(String model) {
        transport.call(
                ModelsGrpc.getUnloadModelMethod(),
                UnloadModelRequest.newBuilder().setModel(model).build());
    }

    /** The adapters of a model that are loaded. */
    public List<AdapterInfo> listAdapters(String model) {
        return Pages.all(
                token -> transport.call(
                        ModelsGrpc.getListAdaptersMethod(),
                        ListAdaptersRequest.newBuilder()
                                .setModel(model)
                                .setPageSize(Pages.SIZE)
                                .setPageToken(token)
                                .build()),
                reply -> reply.getAdaptersList().stream().map(Convert::adapter).toList(),
                ListAdaptersResponse::getNextPageToken);
    }

    /** Load an adapter file of the server's adapter directories under a name. */
    public AdapterInfo loadAdapter(String model, String adapter, String path) {
        LoadAdapterRequest request = LoadAdapterRequest.newBuilder()
                .setModel(model)
                .setAdapter(adapter)
                .setPath(path)
                .build();
        return Convert.adapter(transport.call(ModelsGrpc.getLoadAdapterMethod(), request).getAdapter());
    }

    /** Unload an adapter. FAILED_PRECONDITION with reason ADAPTER_IN_USE while a session has it active. */
    public void unloadAdapter(String model, String adapter) {
        transport.call(
                ModelsGrpc.getUnloadAdapterMethod(),
                UnloadAdapterRequest.newBuilder().setModel(model).setAdapter(adapter).build());
    }
}
