package dev.tokenloom;

import static dev.tokenloom.Inputs.tokens;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import dev.tokenloom.v1.AppendTokensRequest;
import dev.tokenloom.v1.CreateSessionRequest;
import dev.tokenloom.v1.GenerateTokensRequest;
import dev.tokenloom.v1.GenerationConfig;
import dev.tokenloom.v1.LogitsHookReply;
import dev.tokenloom.v1.OperationError;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

/** Errors have a type, details and a cause, and sessions survive them. */
@ExtendWith(ServerExtension.class)
@Timeout(60)
class ErrorsTest {
    private final TokenloomClient client;
    private Session session;

    ErrorsTest(TokenloomClient client) {
        this.client = client;
    }

    @BeforeEach
    void open() {
        session = client.createSession(tokens(1, 2, 3));
    }

    @AfterEach
    void close() {
        session.close();
    }

    @Test
    void aBadFieldIsNamed() {
        GenerationConfig hot = GenerationConfig.newBuilder().setTemperature(-1).build();
        TokenloomException error = assertThrows(
                TokenloomException.class,
                () -> client.createSession(
                        CreateSessionRequest.newBuilder().setGenerationConfig(hot).build()));
        assertEquals(Code.INVALID_ARGUMENT, error.code());
        assertEquals("FIELD_INVALID", error.reason());
        assertEquals("generation_config.temperature", error.fieldViolations().get(0).field());
        assertTrue(error.getMessage().contains("temperature"));
    }

    @Test
    void theValuesBehindTheMessageAreMetadata() {
        AppendTokensRequest late = AppendTokensRequest.newBuilder()
                .addInputs(tokens(4))
                .setExpectedLength(99)
                .build();
        TokenloomException error = assertThrows(TokenloomException.class, () -> session.append(late));
        assertEquals(Code.ABORTED, error.code());
        assertEquals("POSITION_MISMATCH", error.reason());
        assertEquals(Map.of("expected", "99", "actual", "3"), error.metadata());
        assertEquals(3, session.refresh().length());
    }

    @Test
    void theCauseHasTheDetailsOfTheServer() throws Exception {
        TokenloomException unary = assertThrows(TokenloomException.class, () -> session.rewindTo(50));
        assertRewindDetails(unary);
        try (Conversation conversation = session.converse()) {
            CompletionException failed =
                    assertThrows(CompletionException.class, conversation.rewindTo(50)::join);
            TokenloomException streamed = assertInstanceOf(TokenloomException.class, failed.getCause());
            assertRewindDetails(streamed);
            assertEquals(unary.getMessage(), streamed.getMessage());
            assertEquals(unary.metadata(), streamed.metadata());
        }
    }

    @Test
    void anErrorInAStreamSaysHowLongToWait() {
        TokenloomException error = TokenloomException.of(OperationError.newBuilder()
                .setCode(8)
                .setReason("QUEUE_FULL")
                .setRetryDelay(com.google.protobuf.Duration.newBuilder().setNanos(250_000_000))
                .build());
        assertEquals(Code.RESOURCE_EXHAUSTED, error.code());
        assertEquals(Duration.ofMillis(250), error.retryDelay().orElseThrow());
    }

    @Test
    void aSessionThatIsClosedIsNotFound() {
        session.close();
        TokenloomException error = assertThrows(TokenloomException.class, session::generateNextToken);
        assertEquals(Code.NOT_FOUND, error.code());
        assertEquals("SESSION_NOT_FOUND", error.reason());
        assertEquals(session.id(), error.metadata().get("session"));
    }

    @Test
    void aDeadlineLeavesTheSessionUsable() {
        CountDownLatch late = new CountDownLatch(1);
        StreamOptions slow = StreamOptions.defaults().withProcessor(LogitsSelectors.topK(1), logits -> {
            await(late);
            return LogitsHookReply.getDefaultInstance();
        });
        try (Generation running =
                session.stream(GenerateTokensRequest.newBuilder().setSteps(2).build(), slow)) {
            TokenloomException error = assertThrows(
                    TokenloomException.class,
                    () -> session.withTimeout(Duration.ofMillis(200)).generateTokens(1));
            assertEquals(Code.DEADLINE_EXCEEDED, error.code());
            late.countDown();
            assertEquals(2, running.result().steps());
        }
        assertEquals(5, session.refresh().length());
        assertEquals(1, session.generateNextToken().length);
    }

    @Test
    void aServerThatIsNotThereIsUnavailable() {
        try (TokenloomClient nobody = TokenloomClient.connect("127.0.0.1:1")) {
            TokenloomException error = assertThrows(TokenloomException.class, nobody::serverInfo);
            assertEquals(Code.UNAVAILABLE, error.code());
            assertEquals("", error.reason());
        }
    }

    @Test
    void waitingForAServerEndsWithTheTimeout() {
        try (TokenloomClient patient = TokenloomClient.builder()
                .target("127.0.0.1:1")
                .waitForReady()
                .timeout(Duration.ofMillis(200))
                .build()) {
            TokenloomException error = assertThrows(TokenloomException.class, patient::createSession);
            assertEquals(Code.DEADLINE_EXCEEDED, error.code());
        }
    }

    @Test
    void aThreadThatIsInterruptedStopsWaiting() {
        try (Conversation conversation = session.converse()) {
            CountDownLatch late = new CountDownLatch(1);
            Generation generation = conversation.generateTokens(
                    GenerateTokensRequest.newBuilder().setSteps(1).build(),
                    StreamOptions.defaults().withProcessor(LogitsSelectors.topK(1), logits -> {
                        await(late);
                        return LogitsHookReply.getDefaultInstance();
                    }));
            Thread.currentThread().interrupt();
            TokenloomException error = assertThrows(TokenloomException.class, generation::result);
            assertEquals(Code.CANCELLED, error.code());
            assertTrue(Thread.interrupted());
            late.countDown();
            assertEquals(1, generation.result().steps());
        }
    }

    private static void assertRewindDetails(TokenloomException error) throws Exception {
        assertEquals(Code.FAILED_PRECONDITION, error.code());
        assertEquals("REWIND_BEYOND_LENGTH", error.reason());
        StatusRuntimeException cause = assertInstanceOf(StatusRuntimeException.class, error.getCause());
        com.google.rpc.Status status = StatusProto.fromThrowable(cause);
        assertNotNull(status);
        for (Any detail : status.getDetailsList()) {
            if (detail.is(ErrorInfo.class)) {
                assertEquals("tokenloom.dev", detail.unpack(ErrorInfo.class).getDomain());
                assertEquals(error.metadata(), detail.unpack(ErrorInfo.class).getMetadataMap());
                return;
            }
        }
        throw new AssertionError("no ErrorInfo in " + status);
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }
}
