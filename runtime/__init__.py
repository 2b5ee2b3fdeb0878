"""Stateful token generation on ONNX Runtime. Usable in-process; knows nothing of gRPC."""
