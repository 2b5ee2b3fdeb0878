/**
 * Client of Tokenloom, a gRPC service that keeps token-generation sessions on ONNX Runtime.
 *
 * <p>Requests are the protocol's own messages of {@code dev.tokenloom.v1}, whose builders have every option; what is
 * common has a shorter method. Results are records of this package. Every error is a {@link
 * dev.tokenloom.TokenloomException}.
 */
package dev.tokenloom;
