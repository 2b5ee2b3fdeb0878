package dev.tokenloom;

import java.time.Duration;

/** Version and limits of a server. {@code instanceId} is made at its start and tells replicas and restarts apart. */
public record ServerInfo(
        String version,
        String instanceId,
        int maxSessions,
        int maxQueuedOperations,
        int maxMessageBytes,
        Duration defaultIdleTimeout,
        Duration maxIdleTimeout,
        String defaultModel) {}
