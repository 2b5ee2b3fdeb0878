package dev.tokenloom;

import static dev.tokenloom.Inputs.forRow;
import static dev.tokenloom.Inputs.text;
import static dev.tokenloom.Inputs.tokens;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tokenloom.v1.CreateSessionRequest;
import dev.tokenloom.v1.DataType;
import dev.tokenloom.v1.ForkSessionRequest;
import dev.tokenloom.v1.GenerateNextTokenRequest;
import dev.tokenloom.v1.GenerateTokensRequest;
import dev.tokenloom.v1.GenerationConfig;
import dev.tokenloom.v1.GetSequenceRequest;
import dev.tokenloom.v1.LogitsSelector;
import dev.tokenloom.v1.RewindToRequest;
import dev.tokenloom.v1.SetActiveAdapterRequest;
import java.util.BitSet;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** The operations of a session, one call each. */
@ExtendWith(ServerExtension.class)
class SessionTest {
    private final TokenloomClient client;
    private Session session;

    SessionTest(TokenloomClient client) {
        this.client = client;
    }

    @BeforeEach
    void open() {
        session = client.createSession(tokens(1, 2, 3, 4, 5));
    }

    @AfterEach
    void close() {
        session.close();
    }

    @Test
    void aStepGivesATokenForTheRow() {
        int[] next = session.generateNextToken();
        assertArrayEquals(next, session.getNextTokens());
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, next[0]}, session.getSequence(0));
        assertEquals(6, session.tokenCount());
        assertEquals(6, session.getTokenCount().length());
    }

    @Test
    void stepsAfterARewindGiveTheSameTokens() {
        int[] first = session.generateTokens(8).rows().get(0).tokenIds();
        assertEquals(5, session.rewindTo(5).length());
        assertArrayEquals(first, session.generateTokens(8).rows().get(0).tokenIds());
    }

    @Test
    void aRewindTakesAnotherSeedFromThere() {
        try (Session drawing = client.createSession(drawing(3))) {
            int[] first = drawing.generateTokens(8).rows().get(0).tokenIds();
            drawing.rewindTo(RewindToRequest.newBuilder().setLength(1).setSeed(4).build());
            assertFalse(java.util.Arrays.equals(first, drawing.generateTokens(8).rows().get(0).tokenIds()));
            drawing.rewindTo(RewindToRequest.newBuilder().setLength(1).setSeed(3).build());
            assertArrayEquals(first, drawing.generateTokens(8).rows().get(0).tokenIds());
        }
    }

    @Test
    void oneOperationAppendsEditsStepsAndReads() {
        Generated generated = session.generateTokens(GenerateTokensRequest.newBuilder()
                .addInputs(tokens(7, 8))
                .addEdits(LogitsEdits.set(new int[] {42}, new float[] {1000}))
                .setSteps(3)
                .setReturnLogits(LogitsSelectors.topK(2))
                .build());
        assertEquals(3, generated.steps());
        assertEquals(42, generated.rows().get(0).tokenIds()[0]);
        assertEquals(2, generated.logits().orElseThrow().values()[0].length);
        assertEquals(10, generated.state().length());
    }

    @Test
    void logitsAreReadAsTheyWereSet() {
        Logits logits = session.getLogits();
        assertEquals(512, logits.values()[0].length);
        logits.values()[0][42] = 1000;
        session.setLogits(LogitsEdits.dense(logits.values()));
        assertArrayEquals(logits.values()[0], session.getLogits().values()[0]);
        assertArrayEquals(new int[] {42}, session.generateNextToken());
    }

    @Test
    void someLogitsAreSelected() {
        float[] all = session.getLogits().values()[0];
        Logits best = session.getLogits(LogitsSelectors.topK(3));
        assertTrue(best.values()[0][0] >= best.values()[0][1] && best.values()[0][1] >= best.values()[0][2]);
        assertEquals(all[best.tokenIds()[0][2]], best.values()[0][2]);
        Logits named = session.getLogits(LogitsSelectors.tokens(9, 4));
        assertArrayEquals(new float[] {all[9], all[4]}, named.values()[0]);
        LogitsSelector half = LogitsSelectors.tokens(9, 4).toBuilder().setDtype(DataType.DATA_TYPE_FLOAT16).build();
        assertArrayEquals(named.values()[0], session.getLogits(half).values()[0], 0.01f);
    }

    @Test
    void editsChangeSingleLogits() {
        int best = session.getLogits(LogitsSelectors.topK(1)).tokenIds()[0][0];
        float value = session.getLogits(LogitsSelectors.tokens(9)).values()[0][0];
        session.setLogits(
                LogitsEdits.deny(best),
                LogitsEdits.add(new int[] {9}, new float[] {2}),
                LogitsEdits.multiply(new int[] {9}, new float[] {3}));
        assertArrayEquals(
                new float[] {Float.NEGATIVE_INFINITY, (value + 2) * 3},
                session.getLogits(LogitsSelectors.tokens(best, 9)).values()[0],
                1e-4f);
        BitSet allowed = new BitSet();
        allowed.set(17);
        session.setLogits(LogitsEdits.forRow(0, LogitsEdits.allow(allowed, 512)));
        assertArrayEquals(new int[] {17}, session.generateNextToken());
    }

    @Test
    void aForkGoesItsOwnWay() {
        session.generateTokens(3);
        try (Session fork = session.fork()) {
            assertNotEquals(session.id(), fork.id());
            assertArrayEquals(session.generateTokens(4).rows().get(0).tokenIds(),
                    fork.generateTokens(4).rows().get(0).tokenIds());
            fork.append(tokens(9));
            assertEquals(13, fork.tokenCount());
            assertEquals(12, session.tokenCount());
        }
        try (Session named =
                session.fork(ForkSessionRequest.newBuilder().setNewSessionId("a-fork").build())) {
            assertEquals("a-fork", named.id());
        }
    }

    @Test
    void rowsOfUnequalLengthGiveWhatEachGivesAlone() {
        try (Session batch = client.createSession(tokens(1, 2, 3, 4, 5), text("def"), tokens(9, 8, 7))) {
            Generated together = batch.generateTokens(6);
            assertArrayEquals(session.generateTokens(6).rows().get(0).tokenIds(), together.rows().get(0).tokenIds());
            assertEquals(11, batch.state().rows().get(0).length());
            assertEquals(9, batch.state().rows().get(2).length());
            batch.append(forRow(1, tokens(3, 4)));
            batch.rewindTo(RewindToRequest.newBuilder().setLength(3).setRow(2).build());
            assertArrayEquals(new int[] {9, 8, 7}, batch.getSequence(2));
            assertEquals(3, batch.generateNextToken().length);
        }
    }

    @Test
    void rowsFinishByThemselves() {
        GenerationConfig config = GenerationConfig.newBuilder().setMaxNewTokens(2).build();
        try (Session short_ = client.createSession(CreateSessionRequest.newBuilder()
                .addInputs(text("def"))
                .setGenerationConfig(config)
                .build())) {
            Generated all = short_.generateTokens(GenerateTokensRequest.getDefaultInstance());
            assertEquals(2, all.steps());
            assertEquals(FinishReason.LENGTH, all.rows().get(0).finishReason());
            assertTrue(short_.isDone());
            assertEquals(2, short_.generationConfig().getMaxNewTokens());
        }
    }

    @Test
    void textIsDecodedByTheServer() {
        try (Session texts = client.createSession(text("def main"))) {
            assertEquals("def main", texts.getText(0));
            int length = texts.tokenCount();
            texts.append(text("()"));
            assertEquals("()", texts.getSequence(GetSequenceRequest.newBuilder()
                            .setStart(length)
                            .setReturnText(true)
                            .build())
                    .text());
        }
    }

    @Test
    void messagesGoThroughTheChatTemplate() {
        Message question = Message.user("hi");
        try (Session chat = client.createSession(Inputs.chat(question))) {
            ChatPrompt prompt = client.tokenizer().applyChatTemplate(java.util.List.of(question));
            assertArrayEquals(prompt.tokens(), chat.getSequence(0));
        }
    }

    @Test
    void adaptersAreSwitched() {
        client.models().loadAdapter("tiny", "a", "adapter_a.onnx_adapter");
        try {
            float[] base = session.getLogits().values()[0];
            session.setActiveAdapter(SetActiveAdapterRequest.newBuilder().setAdapter("a").setRecompute(true).build());
            assertEquals("a", session.state().adapter());
            assertFalse(java.util.Arrays.equals(base, session.getLogits().values()[0]));
            session.setActiveAdapter("");
            session.rewindTo(0);
            session.append(tokens(1, 2, 3, 4, 5));
            assertArrayEquals(base, session.getLogits().values()[0]);
        } finally {
            client.models().unloadAdapter("tiny", "a");
        }
    }

    @Test
    void inputsAndOutputsOfTheModelAreTensors() {
        assertArrayEquals(new long[] {1, 2, 3, 4, 5}, Tensors.longs(session.getInput("input_ids")));
        float[] output = Tensors.floats(session.getOutput("logits"));
        assertArrayEquals(session.getLogits().values()[0], output);
    }

    @Test
    void theEngineIsToldToRefuseRuns() {
        session.setRuntimeOption("terminate_session", "1");
        TokenloomException refused = assertThrows(TokenloomException.class, () -> session.generateTokens(2));
        assertEquals("SESSION_TERMINATED", refused.reason());
        session.setRuntimeOption("terminate_session", "0");
        assertEquals(1, session.generateNextToken().length);
    }

    @Test
    void aSessionIsFoundAgainByItsId() {
        session.generateTokens(2);
        Session found = client.attach(session.id());
        assertEquals(7, found.tokenCount());
        assertTrue(client.listSessions().stream().anyMatch(state -> state.sessionId().equals(session.id())));
        found.append(tokens(9));
        assertEquals(7, session.tokenCount());
        assertEquals(8, session.refresh().length());
    }

    @Test
    void closingTwiceIsClosing() {
        session.close();
        session.close();
        assertTrue(client.listSessions().stream().noneMatch(state -> state.sessionId().equals(session.id())));
    }

    @Test
    void aRequestIdMakesAnOperationHappenOnce() {
        GenerateNextTokenRequest request =
                GenerateNextTokenRequest.newBuilder().setRequestId("once").build();
        assertArrayEquals(session.generateNextToken(request), session.generateNextToken(request));
        assertEquals(6, session.refresh().length());
    }

    @Test
    void callsThatDoNotWaitRunInTheOrderOfArrival() {
        AsyncSession async = session.async();
        CompletableFuture<Integer> length = async.append(tokens(6, 7))
                .thenCompose(state -> async.generateTokens(3))
                .thenCompose(generated -> async.getTokenCount())
                .thenApply(SessionState::length);
        assertEquals(10, length.join());
        try (Session fork = async.fork().join()) {
            assertEquals(10, fork.tokenCount());
        }
    }

    private static CreateSessionRequest drawing(long seed) {
        GenerationConfig config = GenerationConfig.newBuilder()
                .setDoSample(true)
                .setTemperature(100)
                .setSeed(seed)
                .build();
        return CreateSessionRequest.newBuilder()
                .addInputs(tokens(1))
                .setGenerationConfig(config)
                .build();
    }
}
