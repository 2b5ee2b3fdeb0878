package dev.tokenloom;

import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.ListenableFuture;
import com.google.common.util.concurrent.MoreExecutors;
import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** How requests travel: a channel, how long a call may take (null: no limit), and whether it waits for a server. */
record Transport(Channel channel, Duration timeout, boolean waitForReady) {

    Transport withTimeout(Duration limit) {
        return new Transport(channel, limit, waitForReady);
    }

    /** Do it, and wait. */
    <Q extends Message, P extends Message, T> T run(Operation<Q, P, T> operation) {
        return operation.decode().apply(call(operation.method(), operation.request()));
    }

    /** Ask, and wait for the answer. */
    <Q, P> P call(MethodDescriptor<Q, P> method, Q request) {
        try {
            return ClientCalls.blockingUnaryCall(channel, method, callOptions(), request);
        } catch (StatusRuntimeException error) {
            throw TokenloomException.of(error);
        }
    }

    /** Do it. Cancelling the future cancels the call. */
    <Q extends Message, P extends Message, T> CompletableFuture<T> submit(Operation<Q, P, T> operation) {
        CompletableFuture<T> result = new CompletableFuture<>();
        ListenableFuture<P> reply =
                ClientCalls.futureUnaryCall(channel.newCall(operation.method(), callOptions()), operation.request());
        Futures.addCallback(
                reply,
                new FutureCallback<>() {
                    @Override
                    public void onSuccess(P message) {
                        operation.complete(result, message);
                    }

                    @Override
                    public void onFailure(Throwable error) {
                        result.completeExceptionally(
                                error instanceof StatusRuntimeException status ? TokenloomException.of(status) : error);
                    }
                },
                MoreExecutors.directExecutor());
        result.whenComplete((value, error) -> {
            if (result.isCancelled()) {
                reply.cancel(true);
            }
        });
        return result;
    }

    private CallOptions callOptions() {
        CallOptions options = waitForReady ? CallOptions.DEFAULT.withWaitForReady() : CallOptions.DEFAULT;
        return timeout == null ? options : options.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS);
    }
}
