package dev.tokenloom;

/** What a chat template makes of a conversation. */
public record ChatPrompt(String text, int[] tokens) {}
