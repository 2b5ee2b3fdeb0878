package dev.tokenloom;

/** Tokens of one row, and their text without special tokens where it was asked for. */
public record Sequence(int[] tokenIds, String text) {}
