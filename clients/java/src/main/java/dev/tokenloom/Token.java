package dev.tokenloom;

/**
 * One generated token. {@code text} is the text that became certain with it, which may be that of earlier tokens too;
 * {@code finishReason} is NONE unless it is the row's last.
 */
public record Token(int row, int id, String text, FinishReason finishReason) {}
