package dev.tokenloom;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Waits of callers. */
final class Waiting {
    private Waiting() {}

    /** The result, or its error raised here. */
    static <T> T forResult(CompletableFuture<T> future) {
        try {
            return future.get();
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof TokenloomException error) {
                throw error.again();
            }
            if (failed.getCause() instanceof RuntimeException error) {
                throw error;
            }
            throw new IllegalStateException(failed.getCause());
        } catch (InterruptedException interrupted) {
            throw interrupted();
        }
    }

    /** The thread that waited was interrupted, and still is. */
    static TokenloomException interrupted() {
        Thread.currentThread().interrupt();
        return TokenloomException.cancelled("the thread was interrupted");
    }
}
