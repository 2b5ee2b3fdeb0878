package dev.tokenloom;

/** A loaded LoRA adapter: its file below the adapter directory, and the number of sessions that have it active. */
public record AdapterInfo(String name, String path, long sizeBytes, int sessions) {}
