package dev.tokenloom;

import dev.tokenloom.v1.AppendTokensRequest;
import dev.tokenloom.v1.CloseSessionRequest;
import dev.tokenloom.v1.ForkSessionRequest;
import dev.tokenloom.v1.ForkSessionResponse;
import dev.tokenloom.v1.GenerateNextTokenRequest;
import dev.tokenloom.v1.GenerateTokensRequest;
import dev.tokenloom.v1.GeneratorGrpc;
import dev.tokenloom.v1.GetInputRequest;
import dev.tokenloom.v1.GetLogitsRequest;
import dev.tokenloom.v1.GetNextTokensRequest;
import dev.tokenloom.v1.GetOutputRequest;
import dev.tokenloom.v1.GetSequenceRequest;
import dev.tokenloom.v1.GetSessionRequest;
import dev.tokenloom.v1.GetTokenCountRequest;
import dev.tokenloom.v1.InterruptRequest;
import dev.tokenloom.v1.RewindToRequest;
import dev.tokenloom.v1.SetActiveAdapterRequest;
import dev.tokenloom.v1.SetInputsRequest;
import dev.tokenloom.v1.SetLogitsRequest;
import dev.tokenloom.v1.SetModelInputRequest;
import dev.tokenloom.v1.SetRuntimeOptionRequest;
import dev.tokenloom.v1.Tensor;

/** The operations of a session: requests to calls, replies to results. */
final class Operations {
    private Operations() {}

    static Operation<?, ?, SessionState> append(AppendTokensRequest request) {
        return new Operation<>(
                GeneratorGrpc.getAppendTokensMethod(), request, reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, int[]> generateNextToken(GenerateNextTokenRequest request) {
        return new Operation<>(
                GeneratorGrpc.getGenerateNextTokenMethod(),
                request,
                reply -> Convert.ints(reply.getNextTokensList()));
    }

    static Operation<?, ?, Generated> generateTokens(GenerateTokensRequest request) {
        return new Operation<>(GeneratorGrpc.getGenerateTokensMethod(), request, Convert::generated);
    }

    static Operation<?, ?, int[]> getNextTokens() {
        return new Operation<>(
                GeneratorGrpc.getGetNextTokensMethod(),
                GetNextTokensRequest.getDefaultInstance(),
                reply -> Convert.ints(reply.getNextTokensList()));
    }

    static Operation<?, ?, Sequence> getSequence(GetSequenceRequest request) {
        return new Operation<>(
                GeneratorGrpc.getGetSequenceMethod(),
                request,
                reply -> new Sequence(Convert.ints(reply.getTokenIdsList()), reply.getText()));
    }

    static Operation<?, ?, SessionState> getTokenCount() {
        return new Operation<>(
                GeneratorGrpc.getGetTokenCountMethod(),
                GetTokenCountRequest.getDefaultInstance(),
                reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, SessionState> getSession() {
        return new Operation<>(
                GeneratorGrpc.getGetSessionMethod(),
                GetSessionRequest.getDefaultInstance(),
                reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, SessionState> rewindTo(RewindToRequest request) {
        return new Operation<>(GeneratorGrpc.getRewindToMethod(), request, reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, Logits> getLogits(GetLogitsRequest request) {
        return new Operation<>(
                GeneratorGrpc.getGetLogitsMethod(), request, reply -> Convert.logits(reply.getLogits()));
    }

    static Operation<?, ?, SessionState> setLogits(SetLogitsRequest request) {
        return new Operation<>(GeneratorGrpc.getSetLogitsMethod(), request, reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, SessionState> setInputs(SetInputsRequest request) {
        return new Operation<>(GeneratorGrpc.getSetInputsMethod(), request, reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, SessionState> setModelInput(SetModelInputRequest request) {
        return new Operation<>(
                GeneratorGrpc.getSetModelInputMethod(), request, reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, Tensor> getInput(String name) {
        return new Operation<>(
                GeneratorGrpc.getGetInputMethod(),
                GetInputRequest.newBuilder().setName(name).build(),
                reply -> reply.getInput().getTensor());
    }

    static Operation<?, ?, Tensor> getOutput(String name) {
        return new Operation<>(
                GeneratorGrpc.getGetOutputMethod(),
                GetOutputRequest.newBuilder().setName(name).build(),
                reply -> reply.getOutput().getTensor());
    }

    static Operation<?, ?, SessionState> setActiveAdapter(SetActiveAdapterRequest request) {
        return new Operation<>(
                GeneratorGrpc.getSetActiveAdapterMethod(), request, reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, SessionState> setRuntimeOption(String key, String value) {
        return new Operation<>(
                GeneratorGrpc.getSetRuntimeOptionMethod(),
                SetRuntimeOptionRequest.newBuilder().setKey(key).setValue(value).build(),
                reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, SessionState> interrupt() {
        return new Operation<>(
                GeneratorGrpc.getInterruptMethod(),
                InterruptRequest.getDefaultInstance(),
                reply -> Convert.state(reply.getState()));
    }

    static Operation<?, ?, ForkSessionResponse> fork(ForkSessionRequest request) {
        return new Operation<>(GeneratorGrpc.getForkSessionMethod(), request, reply -> reply);
    }

    static Operation<?, ?, Void> close() {
        return new Operation<>(
                GeneratorGrpc.getCloseSessionMethod(), CloseSessionRequest.getDefaultInstance(), reply -> null);
    }
}
