package dev.tokenloom;

import java.util.List;

/** One step: a token for every row that was not finished, by row. */
public record Step(List<Token> tokens) {}
