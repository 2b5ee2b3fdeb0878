package dev.tokenloom;

/** A tensor of a model's graph. {@code type} as ONNX Runtime names it; an extent of -1 varies. */
public record TensorInfo(String name, String type, long[] shape) {}
