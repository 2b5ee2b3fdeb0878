package dev.tokenloom;

import static dev.tokenloom.Inputs.tokens;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tokenloom.v1.CreateSessionRequest;
import dev.tokenloom.v1.GenerateTokensRequest;
import dev.tokenloom.v1.GenerationConfig;
import dev.tokenloom.v1.LogitsHookReply;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

/** Pipelined operations on one stream. */
@ExtendWith(ServerExtension.class)
@Timeout(60)
class ConversationTest {
    private static final int PROMPT = 5;
    private static final GenerateTokensRequest UNTIL_DONE = GenerateTokensRequest.getDefaultInstance();

    private final TokenloomClient client;
    private Session session;

    ConversationTest(TokenloomClient client) {
        this.client = client;
    }

    /** At this temperature no end of sequence comes early: a generation until done is a long one. */
    @BeforeEach
    void open() {
        session = client.createSession(CreateSessionRequest.newBuilder()
                .addInputs(tokens(1, 2, 3, 4, 5))
                .setGenerationConfig(GenerationConfig.newBuilder()
                        .setDoSample(true)
                        .setTemperature(100)
                        .setSeed(5)
                        .setMinNewTokens(400))
                .build());
    }

    @AfterEach
    void close() {
        session.close();
    }

    @Test
    void operationsRunInTheOrderTheyWereSent() {
        try (Conversation conversation = session.converse()) {
            conversation.append(tokens(7, 8));
            Generation first = conversation.generateTokens(5);
            conversation.rewindTo(PROMPT + 2);
            Generation second = conversation.generateTokens(5);
            CompletableFuture<int[]> sequence = conversation.getSequence(0);
            assertArrayEquals(ids(first.result()), ids(second.result()));
            assertEquals(PROMPT + 7, sequence.join().length);
        }
        assertEquals(PROMPT + 7, session.tokenCount());
    }

    @Test
    void repliesComeInTheOrderOfTheOperations() {
        List<Integer> order = java.util.Collections.synchronizedList(new ArrayList<>());
        try (Conversation conversation = session.converse()) {
            List<CompletableFuture<?>> all = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                int index = i;
                all.add(conversation.generateNextToken().thenRun(() -> order.add(index)));
            }
            CompletableFuture.allOf(all.toArray(CompletableFuture[]::new)).join();
        }
        assertEquals(List.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), order);
    }

    @Test
    void stepsComeByIteratorAsTheyAreMade() {
        try (Generation generation = session.stream(6)) {
            List<Integer> seen = new ArrayList<>();
            for (Step step : generation) {
                seen.add(step.tokens().get(0).id());
            }
            assertArrayEquals(ids(generation.result()), seen.stream().mapToInt(i -> i).toArray());
        }
        assertEquals(PROMPT + 6, session.tokenCount());
    }

    @Test
    void theTextOfTheStepsJoinedIsTheTextOfTheResult() {
        try (Generation generation = session.stream(20)) {
            String text = generation.text(0).collect(java.util.stream.Collectors.joining());
            assertEquals(generation.result().rows().get(0).text(), text);
        }
    }

    @Test
    void stepsComeToAListener() {
        List<Integer> seen = java.util.Collections.synchronizedList(new ArrayList<>());
        Generated generated = session.async()
                .stream(GenerateTokensRequest.newBuilder().setSteps(6).build(), step -> seen.add(
                        step.tokens().get(0).id()))
                .join();
        assertArrayEquals(ids(generated), seen.stream().mapToInt(i -> i).toArray());
        assertFalse(session.refresh().attached());
    }

    @Test
    void creditsHoldTheGenerationBackForASlowReader() {
        try (Conversation conversation = session.converse()) {
            AtomicInteger calls = new AtomicInteger();
            CountDownLatch third = new CountDownLatch(3);
            Generation generation = conversation.generateTokens(
                    GenerateTokensRequest.newBuilder().setSteps(10).build(),
                    StreamOptions.defaults().withCredits(2).withProcessor(LogitsSelectors.topK(1), logits -> {
                        calls.incrementAndGet();
                        third.countDown();
                        return LogitsHookReply.getDefaultInstance();
                    }));
            Iterator<Step> steps = generation.iterator();
            steps.next();
            await(third); // The first step was taken, so a third may be made; a fourth may not.
            steps.next();
            int taken = 2;
            while (steps.hasNext()) {
                steps.next();
                taken++;
                assertTrue(calls.get() <= taken + 3, calls + " steps made, " + taken + " taken");
            }
            assertEquals(10, generation.result().steps());
        }
    }

    @Test
    void aLogitsProcessorChoosesEachToken() {
        AtomicInteger next = new AtomicInteger(40);
        try (Generation generation = session.stream(
                GenerateTokensRequest.newBuilder().setSteps(3).build(),
                StreamOptions.defaults().withProcessor(LogitsSelectors.all(), logits -> {
                    assertEquals(512, logits.values()[0].length);
                    return LogitsHookReply.newBuilder()
                            .addEdits(LogitsEdits.set(new int[] {next.get()}, new float[] {1e6f * next.getAndIncrement()}))
                            .build();
                }))) {
            assertArrayEquals(new int[] {40, 41, 42}, ids(generation.result()));
        }
    }

    @Test
    void aLogitsProcessorStopsRows() {
        try (Generation generation = session.stream(
                GenerateTokensRequest.newBuilder().setSteps(3).build(),
                StreamOptions.defaults()
                        .withProcessor(LogitsSelectors.topK(1), logits -> LogitsHookReply.newBuilder()
                                .addStopRows(0)
                                .build()))) {
            generation.result();
        }
        assertEquals(FinishReason.STOPPED, session.state().rows().get(0).finishReason());
    }

    @Test
    void whatALogitsProcessorThrowsFailsTheGenerationAndTheStreamGoesOn() {
        try (Conversation conversation = session.converse()) {
            Generation generation = conversation.generateTokens(
                    UNTIL_DONE,
                    StreamOptions.defaults().withProcessor(LogitsSelectors.topK(1), logits -> {
                        throw new IllegalStateException("mine");
                    }));
            IllegalStateException mine = assertThrows(IllegalStateException.class, generation::result);
            assertEquals("mine", mine.getMessage());
            assertEquals(1, conversation.generateNextToken().join().length);
        }
    }

    @Test
    void interruptLetsAGenerationAnswerWithWhatItMade() {
        Generated result;
        try (Conversation conversation = session.converse()) {
            Generation generation = conversation.generateTokens(UNTIL_DONE);
            generation.iterator().next();
            generation.interrupt();
            result = generation.result();
        }
        assertTrue(result.interrupted());
        assertKept(ids(result).length);
    }

    @Test
    void cancellingAGenerationLeavesTheSessionUsableAtATokenBoundary() {
        try (Conversation conversation = session.converse()) {
            Generation generation = conversation.generateTokens(UNTIL_DONE);
            generation.iterator().next();
            generation.cancel(true);
            assertThrows(CancellationException.class, generation::join);
            assertEquals(1, conversation.generateNextToken().join().length);
        }
        assertKept(session.refresh().length() - PROMPT);
    }

    @Test
    void closingAStreamedGenerationEndsIt() {
        try (Generation generation = session.stream(UNTIL_DONE, StreamOptions.defaults())) {
            generation.iterator().next();
        }
        assertFalse(session.refresh().attached());
        assertKept(session.state().length() - PROMPT);
        session.generateNextToken();
    }

    @Test
    void cancellingACallLeavesTheSessionUsableAtATokenBoundary() {
        CompletableFuture<Generated> call = session.async().generateTokens(UNTIL_DONE);
        call.cancel(true);
        session.generateNextToken();
        assertKept(session.refresh().length() - PROMPT);
    }

    @Test
    void cancellingAListenedGenerationEndsIt() {
        CountDownLatch first = new CountDownLatch(1);
        CompletableFuture<Generated> generation = session.async().stream(UNTIL_DONE, step -> first.countDown());
        await(first);
        generation.cancel(true);
        session.generateNextToken();
        assertKept(session.refresh().length() - PROMPT);
    }

    @Test
    void aFailedOperationLeavesTheStreamOpen() {
        try (Conversation conversation = session.converse()) {
            CompletableFuture<SessionState> bad = conversation.append(tokens(100_000));
            assertEquals(PROMPT + 1, conversation.append(tokens(7)).join().length());
            CompletionException failed = assertThrows(CompletionException.class, bad::join);
            TokenloomException error = assertInstanceOf(TokenloomException.class, failed.getCause());
            assertEquals("inputs[0].tokens.ids[0]", error.fieldViolations().get(0).field());
        }
    }

    @Test
    void oneStreamAtATimeHoldsASession() {
        try (Conversation conversation = session.converse()) {
            conversation.append(tokens(7)).join();
            Session other = client.attach(session.id());
            TokenloomException error = assertThrows(TokenloomException.class, () -> other.stream(1).result());
            assertEquals("SESSION_ATTACHED", error.reason());
            assertEquals(PROMPT + 2, other.append(tokens(8)).length());
        }
        assertEquals(1, session.stream(1).result().steps());
    }

    @Test
    void aClosedConversationSaysSo() {
        Conversation conversation = session.converse();
        conversation.close();
        CompletionException late = assertThrows(CompletionException.class, conversation.getTokenCount()::join);
        assertEquals(io.grpc.Status.Code.CANCELLED, ((TokenloomException) late.getCause()).code());
    }

    /** The session has the prompt and the tokens that were made, and no more. */
    private void assertKept(int made) {
        assertEquals(PROMPT + made, session.getSequence(0).length);
        assertEquals(PROMPT + made, session.refresh().length());
        assertFalse(session.isDone());
    }

    private static int[] ids(Generated generated) {
        return generated.rows().get(0).tokenIds();
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }
}
