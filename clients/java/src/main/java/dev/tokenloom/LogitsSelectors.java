package dev.tokenloom;

import dev.tokenloom.v1.LogitsSelector;

/** Which logits to return. */
public final class LogitsSelectors {
    private LogitsSelectors() {}

    /** All of them. */
    public static LogitsSelector all() {
        return LogitsSelector.getDefaultInstance();
    }

    /** The k largest of each row, in falling order. */
    public static LogitsSelector topK(int k) {
        return LogitsSelector.newBuilder().setTopK(k).build();
    }

    /** Those of these tokens, in this order. */
    public static LogitsSelector tokens(int... ids) {
        return LogitsSelector.newBuilder().setTokenIds(Inputs.tokenIds(ids)).build();
    }
}
