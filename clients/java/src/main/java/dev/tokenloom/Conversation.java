package dev.tokenloom;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.OneofDescriptor;
import com.google.protobuf.Message;
import dev.tokenloom.v1.AttachSessionRequest;
import dev.tokenloom.v1.AttachSessionResponse;
import dev.tokenloom.v1.ConverseRequest;
import dev.tokenloom.v1.ConverseResponse;
import dev.tokenloom.v1.GenerateTokensRequest;
import dev.tokenloom.v1.GeneratorGrpc;
import dev.tokenloom.v1.GrantCredits;
import dev.tokenloom.v1.LogitsHook;
import dev.tokenloom.v1.LogitsHookReply;
import io.grpc.CallOptions;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ClientResponseObserver;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * A stream attached to a session, made by {@link Session#converse}. Methods send their operation at once, in the order
 * they are called, and a failed operation leaves the stream open. Sending waits only where the server is slow to take
 * what was sent. Several threads may use one conversation.
 *
 * <p>Futures complete, and listeners and logits processors run, on a thread of the stream. There, operations may be sent
 * but not waited for.
 *
 * <p>Closing it ends a running generation and detaches; the session lives on. Where the stream breaks, everything
 * pending fails with UNAVAILABLE (INTERNAL behind some proxies): converse again.
 */
public final class Conversation extends AsyncOperations implements AutoCloseable {
    /** The field of the stream's message for each type of request. */
    private static final Map<Descriptor, FieldDescriptor> FIELDS =
            oneof(ConverseRequest.getDescriptor(), "operation").getFields().stream()
                    .collect(Collectors.toMap(FieldDescriptor::getMessageType, Function.identity()));

    private static final OneofDescriptor RESULT = oneof(ConverseResponse.getDescriptor(), "result");
    private static final long ATTACH = 1;

    private final Map<Long, Pending<?>> pending = new HashMap<>(); // This and what follows: guarded by this.
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private ClientCallStreamObserver<ConverseRequest> outgoing;
    private Thread receiver;
    private long lastId;
    private boolean isDetached;
    private TokenloomException end;

    /** An operation on its way. The generation is the future of one that makes steps, null otherwise. */
    private record Pending<T>(Operation<?, ?, T> operation, CompletableFuture<T> future, Generation generation) {
        void complete(Message reply) {
            operation.complete(future, reply);
        }
    }

    Conversation(Transport transport, SessionHandle handle) {
        super(transport, handle);
        ClientCalls.asyncBidiStreamingCall(
                transport.channel().newCall(GeneratorGrpc.getConverseMethod(), CallOptions.DEFAULT), new Incoming());
        Operation<?, AttachSessionResponse, Void> attach =
                new Operation<>(null, AttachSessionRequest.getDefaultInstance(), reply -> null);
        submit(attach);
    }

    /** Up to this many steps. */
    @Override
    public Generation generateTokens(int steps) {
        return generateTokens(GenerateTokensRequest.newBuilder().setSteps(steps).build());
    }

    /** As {@link Session#generateTokens(GenerateTokensRequest)}; iterate over it for the steps as they come. */
    @Override
    public Generation generateTokens(GenerateTokensRequest request) {
        return generateTokens(request, StreamOptions.defaults());
    }

    /** As {@link #generateTokens(GenerateTokensRequest)}, with a listener, a logits processor or credits. */
    public Generation generateTokens(GenerateTokensRequest request, StreamOptions options) {
        return start(request, new Generation(this, options, false));
    }

    /** As {@link #generateTokens(GenerateTokensRequest, StreamOptions)}; the conversation ends with it. */
    Generation generateAlone(GenerateTokensRequest request, StreamOptions options) {
        return start(request, new Generation(this, options, true));
    }

    /** End a running generation, detach, and wait until the server has noticed. */
    @Override
    public void close() {
        detach();
        if (!isReceiver()) {
            Waiting.forResult(ended);
        }
    }

    /** As {@link #close}, without waiting. */
    synchronized void detach() {
        if (isDetached) {
            return;
        }
        if (pending.values().stream().anyMatch(each -> each.generation != null)) {
            interrupt();
        }
        isDetached = true;
        if (end == null) {
            outgoing.onCompleted();
        }
    }

    /** Completes when the stream has ended, however it did. */
    CompletableFuture<Void> ended() {
        return ended;
    }

    /** Let a generation send this many further steps. */
    synchronized void grant(long id, int events) {
        if (!isDetached && end == null) {
            outgoing.onNext(ConverseRequest.newBuilder()
                    .setOperationId(id)
                    .setGrantCredits(GrantCredits.newBuilder().setEvents(events))
                    .build());
        }
    }

    @Override
    <T> CompletableFuture<T> submit(Operation<?, ?, T> operation) {
        CompletableFuture<T> future = new CompletableFuture<>();
        send(operation, future, null);
        return future;
    }

    private Generation start(GenerateTokensRequest request, Generation generation) {
        StreamOptions options = generation.options();
        GenerateTokensRequest complete = options.processor() == null
                ? request
                : request.toBuilder().setLogitsHook(LogitsHook.newBuilder().setSelector(options.selector())).build();
        send(Operations.generateTokens(complete).map(generation::withSteps), generation, generation);
        return generation;
    }

    private synchronized <T> void send(
            Operation<?, ?, T> operation, CompletableFuture<T> future, Generation generation) {
        if (lastId >= ATTACH) { // The stream may open while its first message waits.
            awaitReady();
        }
        if (isDetached || end != null) {
            future.completeExceptionally(end != null ? end : TokenloomException.cancelled("the conversation is closed"));
            return;
        }
        Operation<?, ?, T> ours = handle.prepare(operation);
        long id = ++lastId;
        ConverseRequest.Builder message = ConverseRequest.newBuilder().setOperationId(id);
        message.setField(FIELDS.get(ours.request().getDescriptorForType()), ours.request());
        if (generation != null) {
            generation.startsAs(id);
            if (generation.options().credits() > 0) {
                message.setCredits(generation.options().credits());
            }
        }
        pending.put(id, new Pending<>(ours, future, generation));
        outgoing.onNext(message.build());
    }

    /** Wait while the server is slow. The thread that receives doesn't: it is the one that would hear of the end of it. */
    private void awaitReady() {
        while (!outgoing.isReady() && !isDetached && end == null && !isReceiver()) {
            try {
                wait();
            } catch (InterruptedException interrupted) {
                throw Waiting.interrupted();
            }
        }
    }

    private synchronized boolean isReceiver() {
        return Thread.currentThread() == receiver;
    }

    private synchronized void receives(Thread thread) {
        receiver = thread;
    }

    private synchronized void becameReady() {
        notifyAll();
    }

    private synchronized Pending<?> find(ConverseResponse message) {
        long id = message.getOperationId();
        return message.getFinal() ? pending.remove(id) : pending.get(id);
    }

    private void receive(ConverseResponse message) {
        Pending<?> target = find(message);
        switch (message.getResultCase()) {
            case STEP -> target.generation.receive(Convert.step(message.getStep()));
            case LOGITS_HOOK_CALL -> answer(message, target.generation);
            case ERROR -> {
                TokenloomException error = TokenloomException.of(message.getError());
                target.future.completeExceptionally(error);
                if (message.getOperationId() == ATTACH) {
                    end(error);
                }
            }
            default -> target.complete((Message) message.getField(message.getOneofFieldDescriptor(RESULT)));
        }
    }

    private void answer(ConverseResponse message, Generation generation) {
        LogitsHookReply reply = generation.process(Convert.logits(message.getLogitsHookCall().getLogits()));
        synchronized (this) {
            if (reply != null && !isDetached && end == null) {
                outgoing.onNext(ConverseRequest.newBuilder()
                        .setOperationId(message.getOperationId())
                        .setLogitsHookReply(reply)
                        .build());
            }
        }
    }

    /** The stream has ended: whatever is pending, or starts from now on, fails with this. */
    private void end(TokenloomException error) {
        List<Pending<?>> rest;
        synchronized (this) {
            if (end != null) {
                return;
            }
            end = error;
            rest = List.copyOf(pending.values());
            pending.clear();
            notifyAll();
        }
        rest.forEach(each -> each.future.completeExceptionally(error));
        ended.complete(null);
    }

    private static OneofDescriptor oneof(Descriptor message, String name) {
        return message.getOneofs().stream()
                .filter(each -> each.getName().equals(name))
                .findFirst()
                .orElseThrow();
    }

    /** What the server sends. One message at a time is asked for: what runs here holds the stream back. */
    private final class Incoming implements ClientResponseObserver<ConverseRequest, ConverseResponse> {
        @Override
        public void beforeStart(ClientCallStreamObserver<ConverseRequest> stream) {
            outgoing = stream;
            stream.disableAutoRequestWithInitial(1);
            stream.setOnReadyHandler(Conversation.this::becameReady);
        }

        @Override
        public void onNext(ConverseResponse message) {
            receives(Thread.currentThread());
            try {
                receive(message);
            } finally {
                receives(null);
            }
            outgoing.request(1);
        }

        @Override
        public void onError(Throwable error) {
            end(TokenloomException.of(Status.fromThrowable(error).asRuntimeException(Status.trailersFromThrowable(error))));
        }

        @Override
        public void onCompleted() {
            end(TokenloomException.cancelled("the conversation is closed"));
        }
    }
}
