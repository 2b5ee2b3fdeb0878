package dev.tokenloom;

import java.io.Serializable;

/** One field at fault: its path in the request, and what is wrong and what is allowed. */
public record FieldViolation(String field, String description) implements Serializable {}
