"""The gRPC service around the runtime."""
