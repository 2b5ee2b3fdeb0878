package dev.tokenloom;

/**
 * Logits for the next token of each row. {@code values}: [rows][vocab_size], or [rows][k] of a selection; they may be
 * written to. {@code tokenIds}: the token of each value of a selection, [rows][k]; null where all were asked for.
 */
public record Logits(float[][] values, int[][] tokenIds) {}
