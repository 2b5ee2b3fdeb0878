package dev.tokenloom;

/**
 * One row of a session. Lengths in tokens; {@code newTokens} are those generated since the last append; {@code
 * stopString} is the one that matched, where finishReason is STOP_STRING.
 */
public record RowState(int length, int newTokens, FinishReason finishReason, String stopString) {}
