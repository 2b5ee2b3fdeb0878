package dev.tokenloom;

import dev.tokenloom.v1.GenerateTokensRequest;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * A session whose calls do not wait; made by {@link Session#async}. Cancelling a future cancels its call: a generation
 * ends at a token boundary and the session stays usable.
 */
public final class AsyncSession extends AsyncOperations {
    AsyncSession(Transport transport, SessionHandle handle) {
        super(transport, handle);
    }

    @Override
    <T> CompletableFuture<T> submit(Operation<?, ?, T> operation) {
        return transport.submit(handle.prepare(operation));
    }

    /**
     * Generate, and give each step to the listener as it comes, on a thread of the stream. The result's rows have the
     * tokens of all steps. Cancelling the future ends the generation.
     */
    public CompletableFuture<Generated> stream(GenerateTokensRequest request, Consumer<Step> listener) {
        Conversation conversation = new Conversation(transport, handle);
        Generation generation =
                conversation.generateTokens(request, StreamOptions.defaults().withListener(listener));
        CompletableFuture<Generated> result = new CompletableFuture<>();
        generation.whenComplete((generated, error) -> {
            conversation.detach();
            conversation.ended().thenRun(() -> { // Then the session can be attached to again.
                if (error == null) {
                    result.complete(generated);
                } else {
                    result.completeExceptionally(error);
                }
            });
        });
        result.whenComplete((generated, error) -> {
            if (result.isCancelled()) {
                generation.cancel(true);
            }
        });
        return result;
    }

    /** Close the session. */
    public CompletableFuture<Void> close() {
        return submit(Operations.close());
    }
}
