package dev.tokenloom;

/**
 * What a row of a one-shot generation came to. {@code tokenIds} are the generated ones; {@code promptTokens} counts the
 * prompt without padding; {@code seed} is what the row drew with.
 */
public record RowSummary(
        int row,
        int[] tokenIds,
        String text,
        FinishReason finishReason,
        String stopString,
        int promptTokens,
        long seed) {}
