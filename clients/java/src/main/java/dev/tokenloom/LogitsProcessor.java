package dev.tokenloom;

import dev.tokenloom.v1.LogitsHookReply;

/**
 * Called with the logits before each step of a generation: a logits processor or stopping criterion. The server waits
 * for what it returns: edits for this step, and rows to finish now without sampling.
 *
 * <p>It runs on a thread of the stream: it may send operations, but not wait for their replies. What it throws fails the
 * generation.
 */
@FunctionalInterface
public interface LogitsProcessor {
    /** {@code logits}: as selected, by row, finished rows included. */
    LogitsHookReply process(Logits logits);
}
