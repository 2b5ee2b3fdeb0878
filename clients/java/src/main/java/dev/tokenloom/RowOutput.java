package dev.tokenloom;

/** What one row got from a generation: its new tokens, oldest first, and their text. */
public record RowOutput(int row, int[] tokenIds, String text, FinishReason finishReason) {}
