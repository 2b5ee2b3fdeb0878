package dev.tokenloom;

import java.time.Instant;
import java.util.List;

/**
 * A session at a token boundary. {@code length} is the largest of its rows, in tokens; {@code adapter} is empty for the
 * base model; {@code parked} says that its cache slot was given to others until it is used again.
 */
public record SessionState(
        String sessionId,
        String model,
        String adapter,
        int length,
        boolean isDone,
        List<RowState> rows,
        Instant expireTime,
        boolean parked,
        boolean attached) {}
