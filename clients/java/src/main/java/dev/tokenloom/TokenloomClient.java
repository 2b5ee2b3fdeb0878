package dev.tokenloom;

import dev.tokenloom.v1.CloseSessionRequest;
import dev.tokenloom.v1.CreateSessionRequest;
import dev.tokenloom.v1.CreateSessionResponse;
import dev.tokenloom.v1.GenerateRequest;
import dev.tokenloom.v1.GeneratorGrpc;
import dev.tokenloom.v1.GetServerInfoRequest;
import dev.tokenloom.v1.GetSessionRequest;
import dev.tokenloom.v1.ListSessionsRequest;
import dev.tokenloom.v1.ListSessionsResponse;
import dev.tokenloom.v1.ModelsGrpc;
import dev.tokenloom.v1.RowInput;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * A connection to a server. Cheap to keep, and safe to use from several threads. Nothing is sent before the first call.
 *
 * <p>Reads, and operations that carry a request id (all that change a session), are sent again where no server answers
 * (UNAVAILABLE); the server never does one twice.
 */
public final class TokenloomClient implements AutoCloseable {
    public static final String DEFAULT_TARGET = "localhost:50051";

    private final ManagedChannel channel;
    private final Transport transport;
    private final String model;

    private TokenloomClient(ManagedChannel channel, Transport transport, String model) {
        this.channel = channel;
        this.transport = transport;
        this.model = model;
    }

    /** A client with the default settings. target: "host:port", or any gRPC name. */
    public static TokenloomClient connect(String target) {
        return builder().target(target).build();
    }

    public static Builder builder() {
        return new Builder();
    }

    /** Create a session of one row for each content, or of one empty row. */
    public Session createSession(RowInput... inputs) {
        return createSession(
                CreateSessionRequest.newBuilder().addAllInputs(List.of(inputs)).build());
    }

    /** Create a session. Close it, or it ends after its idle timeout. */
    public Session createSession(CreateSessionRequest request) {
        return Session.of(transport, transport.run(creation(request)));
    }

    /** Create a session without waiting. */
    public CompletableFuture<Session> createSessionAsync(CreateSessionRequest request) {
        return transport.submit(creation(request).map(reply -> Session.of(transport, reply)));
    }

    /** The session of that id, made by any client. */
    public Session attach(String sessionId) {
        GetSessionRequest request =
                GetSessionRequest.newBuilder().setSessionId(sessionId).build();
        return Session.of(transport, transport.call(GeneratorGrpc.getGetSessionMethod(), request));
    }

    /** All sessions of the server, by id. */
    public List<SessionState> listSessions() {
        return Pages.all(
                token -> transport.call(
                        GeneratorGrpc.getListSessionsMethod(),
                        ListSessionsRequest.newBuilder().setPageSize(Pages.SIZE).setPageToken(token).build()),
                reply -> reply.getSessionsList().stream().map(Convert::state).toList(),
                ListSessionsResponse::getNextPageToken);
    }

    /** Close a session by its id. */
    public void closeSession(String sessionId) {
        transport.call(
                GeneratorGrpc.getCloseSessionMethod(),
                CloseSessionRequest.newBuilder().setSessionId(sessionId).build());
    }

    /** Answer a conversation, with no session to keep. */
    public TokenStream chat(Message... messages) {
        return generate(GenerateRequest.newBuilder().addInputs(Inputs.chat(messages)).build());
    }

    /** Generate for a batch of prompts, with no session to keep. Rows finish independently. */
    public TokenStream generate(GenerateRequest request) {
        GenerateRequest named =
                request.getModel().isEmpty() ? request.toBuilder().setModel(model).build() : request;
        return new TokenStream(channel, named);
    }

    /** Version and limits of the server. */
    public ServerInfo serverInfo() {
        return Convert.serverInfo(
                transport.call(ModelsGrpc.getGetServerInfoMethod(), GetServerInfoRequest.getDefaultInstance()));
    }

    public Models models() {
        return new Models(transport);
    }

    /** The tokenizer of this client's model. */
    public Tokenizer tokenizer() {
        return tokenizer(model);
    }

    /** The tokenizer of a model; "" for the server's default. */
    public Tokenizer tokenizer(String model) {
        return new Tokenizer(transport, model);
    }

    /** Close the connection. Sessions stay in the server until they idle out. */
    @Override
    public void close() {
        channel.shutdownNow();
    }

    private Operation<?, ?, CreateSessionResponse> creation(CreateSessionRequest request) {
        CreateSessionRequest named =
                request.getModel().isEmpty() ? request.toBuilder().setModel(model).build() : request;
        return new Operation<>(GeneratorGrpc.getCreateSessionMethod(), named, reply -> reply).retryable();
    }

    /** Settings of a client; each has a default. */
    public static final class Builder {
        private final List<ClientInterceptor> interceptors = new ArrayList<>();
        private String target = DEFAULT_TARGET;
        private String model = "";
        private ChannelCredentials credentials = InsecureChannelCredentials.create();
        private int maxMessageBytes = 64 << 20;
        private Duration keepAlive = Duration.ofSeconds(30);
        private Map<String, ?> serviceConfig = RetryPolicy.serviceConfig();
        private Duration timeout;
        private boolean waitForReady;

        private Builder() {}

        /** "host:port", or any gRPC name. Default: {@link #DEFAULT_TARGET}. */
        public Builder target(String target) {
            this.target = target;
            return this;
        }

        /** The model of sessions, generations and the tokenizer that name none. Default: the server's. */
        public Builder model(String model) {
            this.model = model;
            return this;
        }

        /** Of a TLS channel. Default: plain text. */
        public Builder credentials(ChannelCredentials credentials) {
            this.credentials = credentials;
            return this;
        }

        /** The largest message to take; {@link ServerInfo#maxMessageBytes} is what the server sends. Default 64 MiB. */
        public Builder maxMessageBytes(int bytes) {
            this.maxMessageBytes = bytes;
            return this;
        }

        /** How often the connection is tested while calls run. Default 30 s; servers refuse much shorter ones. */
        public Builder keepAlive(Duration interval) {
            this.keepAlive = interval;
            return this;
        }

        /** gRPC's service config, instead of one that retries what is safe, 5 attempts in about 2 seconds. */
        public Builder serviceConfig(Map<String, ?> config) {
            this.serviceConfig = config;
            return this;
        }

        /** How long each call may take, retries included; DEADLINE_EXCEEDED after that. Default: no limit. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** Wait for a server that is not there yet, up to the timeout. Default: fail with UNAVAILABLE. */
        public Builder waitForReady() {
            this.waitForReady = true;
            return this;
        }

        /** Add an interceptor to every call: for headers, tracing, ... */
        public Builder intercept(ClientInterceptor interceptor) {
            interceptors.add(interceptor);
            return this;
        }

        public TokenloomClient build() {
            ManagedChannel channel = Grpc.newChannelBuilder(target, credentials)
                    .maxInboundMessageSize(maxMessageBytes)
                    .perRpcBufferLimit(maxMessageBytes) // So that large messages are retried too.
                    .keepAliveTime(keepAlive.toNanos(), TimeUnit.NANOSECONDS)
                    .defaultServiceConfig(serviceConfig)
                    .enableRetry()
                    .intercept(interceptors)
                    .build();
            return new TokenloomClient(channel, new Transport(channel, timeout, waitForReady), model);
        }
    }
}
