package dev.tokenloom;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.grpc.MethodDescriptor;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * One request, the method it is for (null: it is only for a stream), and what to make of the reply. It knows nothing of
 * how the request travels.
 */
record Operation<Q extends Message, P extends Message, T>(
        MethodDescriptor<Q, P> method, Q request, Function<P, T> decode) {

    <R> Operation<Q, P, R> map(Function<T, R> then) {
        return new Operation<>(method, request, decode.andThen(then));
    }

    /** This operation, for a session: with its id, and a request id that makes it safe to send again. */
    Operation<Q, P, T> of(String sessionId) {
        return filled("session_id", sessionId).retryable();
    }

    /** With a request id, where the request takes one and has none. */
    Operation<Q, P, T> retryable() {
        return filled("request_id", UUID.randomUUID().toString());
    }

    /** Complete a future with what the reply comes to. */
    @SuppressWarnings("unchecked") // The reply to a request is of one type, whichever way it comes.
    void complete(CompletableFuture<T> future, Message reply) {
        try {
            future.complete(decode.apply((P) reply));
        } catch (RuntimeException failure) {
            future.completeExceptionally(failure);
        }
    }

    /** With this value where the request has such a field that is empty. */
    @SuppressWarnings("unchecked") // The builder of a message builds the same message.
    private Operation<Q, P, T> filled(String name, String value) {
        FieldDescriptor field = request.getDescriptorForType().findFieldByName(name);
        if (field == null || !request.getField(field).equals("")) {
            return this;
        }
        Q complete = (Q) request.toBuilder().setField(field, value).build();
        return new Operation<>(method, complete, decode);
    }
}
