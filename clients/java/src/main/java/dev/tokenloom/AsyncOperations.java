package dev.tokenloom;

import dev.tokenloom.v1.AppendTokensRequest;
import dev.tokenloom.v1.ForkSessionRequest;
import dev.tokenloom.v1.GenerateNextTokenRequest;
import dev.tokenloom.v1.GenerateTokensRequest;
import dev.tokenloom.v1.GetLogitsRequest;
import dev.tokenloom.v1.GetSequenceRequest;
import dev.tokenloom.v1.LogitsEdit;
import dev.tokenloom.v1.LogitsSelector;
import dev.tokenloom.v1.NamedTensor;
import dev.tokenloom.v1.RewindToRequest;
import dev.tokenloom.v1.RowInput;
import dev.tokenloom.v1.SetActiveAdapterRequest;
import dev.tokenloom.v1.SetInputsRequest;
import dev.tokenloom.v1.SetLogitsRequest;
import dev.tokenloom.v1.SetModelInputRequest;
import dev.tokenloom.v1.Tensor;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * The operations of a session, whose results are futures. {@link Session} says what each does. A future that fails does
 * so with a {@link TokenloomException}.
 */
public abstract sealed class AsyncOperations permits AsyncSession, Conversation {
    final Transport transport;
    final SessionHandle handle;

    AsyncOperations(Transport transport, SessionHandle handle) {
        this.transport = transport;
        this.handle = handle;
    }

    abstract <T> CompletableFuture<T> submit(Operation<?, ?, T> operation);

    public CompletableFuture<SessionState> append(RowInput... inputs) {
        return append(AppendTokensRequest.newBuilder().addAllInputs(List.of(inputs)).build());
    }

    public CompletableFuture<SessionState> append(AppendTokensRequest request) {
        return submit(Operations.append(request));
    }

    public CompletableFuture<int[]> generateNextToken() {
        return generateNextToken(GenerateNextTokenRequest.getDefaultInstance());
    }

    public CompletableFuture<int[]> generateNextToken(GenerateNextTokenRequest request) {
        return submit(Operations.generateNextToken(request));
    }

    public CompletableFuture<Generated> generateTokens(int steps) {
        return generateTokens(GenerateTokensRequest.newBuilder().setSteps(steps).build());
    }

    public CompletableFuture<Generated> generateTokens(GenerateTokensRequest request) {
        return submit(Operations.generateTokens(request));
    }

    public CompletableFuture<int[]> getNextTokens() {
        return submit(Operations.getNextTokens());
    }

    public CompletableFuture<int[]> getSequence(int row) {
        return getSequence(GetSequenceRequest.newBuilder().setRow(row).build()).thenApply(Sequence::tokenIds);
    }

    public CompletableFuture<Sequence> getSequence(GetSequenceRequest request) {
        return submit(Operations.getSequence(request));
    }

    public CompletableFuture<SessionState> getTokenCount() {
        return submit(Operations.getTokenCount());
    }

    public CompletableFuture<SessionState> rewindTo(int length) {
        return rewindTo(RewindToRequest.newBuilder().setLength(length).build());
    }

    public CompletableFuture<SessionState> rewindTo(RewindToRequest request) {
        return submit(Operations.rewindTo(request));
    }

    public CompletableFuture<Logits> getLogits() {
        return getLogits(LogitsSelectors.all());
    }

    public CompletableFuture<Logits> getLogits(LogitsSelector selector) {
        return submit(Operations.getLogits(GetLogitsRequest.newBuilder().setSelector(selector).build()));
    }

    public CompletableFuture<SessionState> setLogits(LogitsEdit... edits) {
        return setLogits(SetLogitsRequest.newBuilder().addAllEdits(List.of(edits)).build());
    }

    public CompletableFuture<SessionState> setLogits(SetLogitsRequest request) {
        return submit(Operations.setLogits(request));
    }

    public CompletableFuture<SessionState> setInputs(SetInputsRequest request) {
        return submit(Operations.setInputs(request));
    }

    public CompletableFuture<SessionState> setModelInput(String name, Tensor value) {
        NamedTensor input = NamedTensor.newBuilder().setName(name).setTensor(value).build();
        return submit(Operations.setModelInput(SetModelInputRequest.newBuilder().setInput(input).build()));
    }

    public CompletableFuture<Tensor> getInput(String name) {
        return submit(Operations.getInput(name));
    }

    public CompletableFuture<Tensor> getOutput(String name) {
        return submit(Operations.getOutput(name));
    }

    public CompletableFuture<SessionState> setActiveAdapter(String adapter) {
        return setActiveAdapter(SetActiveAdapterRequest.newBuilder().setAdapter(adapter).build());
    }

    public CompletableFuture<SessionState> setActiveAdapter(SetActiveAdapterRequest request) {
        return submit(Operations.setActiveAdapter(request));
    }

    public CompletableFuture<SessionState> setRuntimeOption(String key, String value) {
        return submit(Operations.setRuntimeOption(key, value));
    }

    public CompletableFuture<SessionState> interrupt() {
        return submit(Operations.interrupt());
    }

    public CompletableFuture<Session> fork() {
        return fork(ForkSessionRequest.getDefaultInstance());
    }

    public CompletableFuture<Session> fork(ForkSessionRequest request) {
        return submit(Operations.fork(request).map(forked -> Session.of(transport, forked)));
    }
}
