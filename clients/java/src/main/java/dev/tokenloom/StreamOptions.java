package dev.tokenloom;

import dev.tokenloom.v1.LogitsSelector;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * How the steps of a generation travel. Start with {@link #defaults}.
 *
 * @param processor called before each step; null for none
 * @param selector what the processor gets
 * @param credits steps that may be under way without having been taken; 0 for no such limit
 * @param listener gets the steps instead of the iterator; null for the iterator
 */
public record StreamOptions(
        LogitsProcessor processor, LogitsSelector selector, int credits, Consumer<Step> listener) {
    public StreamOptions {
        Objects.requireNonNull(selector);
        if (credits < 0) {
            throw new IllegalArgumentException("credits: expected 0 or more, got " + credits);
        }
    }

    /** Steps by iterator, buffered until they are taken. */
    public static StreamOptions defaults() {
        return new StreamOptions(null, LogitsSelectors.all(), 0, null);
    }

    /** Call this with the selected logits before each step. */
    public StreamOptions withProcessor(LogitsSelector selector, LogitsProcessor processor) {
        return new StreamOptions(processor, selector, credits, listener);
    }

    /** Let the generation wait for its reader once this many steps were not taken. */
    public StreamOptions withCredits(int credits) {
        return new StreamOptions(processor, selector, credits, listener);
    }

    /**
     * Give the steps to this, one at a time, on a thread of the stream. A slow listener holds the stream back, and with
     * credits the generation too. It may send operations, but not wait for their replies.
     */
    public StreamOptions withListener(Consumer<Step> listener) {
        return new StreamOptions(processor, selector, credits, listener);
    }
}
