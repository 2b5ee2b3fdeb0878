package dev.tokenloom;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.tokenloom.v1.OperationError;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Every error of this package. Its cause is the {@link StatusRuntimeException}, with the google.rpc details of the
 * server, also where the error came inside a stream. docs/errors.md of Tokenloom lists the reasons.
 *
 * <p>After any error the session is at a token boundary and usable, unless the error says that there is none.
 */
public final class TokenloomException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Of the errors that did not come from a server of this kind. */
    private static final com.google.rpc.Status NO_DETAILS = com.google.rpc.Status.getDefaultInstance();

    private final Status.Code code;
    private final String reason;
    private final Map<String, String> metadata;
    private final List<FieldViolation> fieldViolations;
    private final Duration retryDelay;

    private TokenloomException(StatusRuntimeException cause, com.google.rpc.Status status) {
        super(text(cause.getStatus()), cause);
        ErrorInfo info = detail(status, ErrorInfo.class).orElse(ErrorInfo.getDefaultInstance());
        code = cause.getStatus().getCode();
        reason = info.getReason();
        metadata = Map.copyOf(info.getMetadataMap());
        fieldViolations = detail(status, BadRequest.class).orElse(BadRequest.getDefaultInstance())
                .getFieldViolationsList().stream()
                .map(violation -> new FieldViolation(violation.getField(), violation.getDescription()))
                .toList();
        retryDelay = detail(status, RetryInfo.class).map(retry -> Convert.duration(retry.getRetryDelay())).orElse(null);
    }

    /** From a call that ended with a status other than OK. */
    static TokenloomException of(StatusRuntimeException error) {
        com.google.rpc.Status status = StatusProto.fromThrowable(error);
        return new TokenloomException(error, status == null ? NO_DETAILS : status);
    }

    /** From an error inside a stream, as if it were that of a call. */
    static TokenloomException of(OperationError error) {
        com.google.rpc.Status.Builder status =
                com.google.rpc.Status.newBuilder().setCode(error.getCode()).setMessage(error.getMessage());
        status.addDetails(Any.pack(ErrorInfo.newBuilder()
                .setReason(error.getReason())
                .setDomain("tokenloom.dev")
                .putAllMetadata(error.getMetadataMap())
                .build()));
        if (error.getFieldViolationsCount() > 0) {
            BadRequest.Builder request = BadRequest.newBuilder();
            error.getFieldViolationsList().forEach(violation -> request.addFieldViolationsBuilder()
                    .setField(violation.getField())
                    .setDescription(violation.getDescription()));
            status.addDetails(Any.pack(request.build()));
        }
        if (error.hasRetryDelay()) {
            status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(error.getRetryDelay()).build()));
        }
        return of(StatusProto.toStatusRuntimeException(status.build()));
    }

    /** What the client itself ended. */
    static TokenloomException cancelled(String description) {
        return of(Status.CANCELLED.withDescription(description).asRuntimeException());
    }

    /** The same error, raised here. */
    TokenloomException again() {
        return of((StatusRuntimeException) getCause());
    }

    public Status.Code code() {
        return code;
    }

    /** For programs, in capitals (SESSION_NOT_FOUND, ...); "" where the error is gRPC's own. */
    public String reason() {
        return reason;
    }

    /** The values behind the message: limits, lengths, names. */
    public Map<String, String> metadata() {
        return metadata;
    }

    /** The fields at fault, for INVALID_ARGUMENT. */
    public List<FieldViolation> fieldViolations() {
        return fieldViolations;
    }

    /** How long to wait before trying again; empty where waiting does not help. */
    public Optional<Duration> retryDelay() {
        return Optional.ofNullable(retryDelay);
    }

    private static String text(Status status) {
        String description = status.getDescription();
        return description == null ? status.getCode().name() : description;
    }

    private static <M extends com.google.protobuf.Message> Optional<M> detail(
            com.google.rpc.Status status, Class<M> type) {
        return status.getDetailsList().stream()
                .filter(detail -> detail.is(type))
                .findFirst()
                .flatMap(detail -> unpack(detail, type));
    }

    private static <M extends com.google.protobuf.Message> Optional<M> unpack(Any detail, Class<M> type) {
        try {
            return Optional.of(detail.unpack(type));
        } catch (InvalidProtocolBufferException damaged) { // By a proxy, say: the status itself still tells the error.
            return Optional.empty();
        }
    }
}
