package dev.tokenloom;

import static dev.tokenloom.Inputs.text;
import static dev.tokenloom.Inputs.tokens;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.tokenloom.v1.CreateSessionRequest;
import dev.tokenloom.v1.GenerateRequest;
import dev.tokenloom.v1.GenerationConfig;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;
import io.grpc.Status.Code;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

/** Models, adapters, the tokenizer and one-shot generation. */
@ExtendWith(ServerExtension.class)
@Timeout(60)
class ClientTest {
    private static final GenerationConfig FIVE =
            GenerationConfig.newBuilder().setMaxNewTokens(5).build();

    private final RunningServer server;
    private final TokenloomClient client;

    ClientTest(RunningServer server, TokenloomClient client) {
        this.server = server;
        this.client = client;
    }

    @Test
    void theServerTellsItsVersionAndLimits() {
        ServerInfo info = client.serverInfo();
        assertFalse(info.version().isEmpty());
        assertEquals("tiny", info.defaultModel());
        assertEquals(64 << 20, info.maxMessageBytes());
        assertTrue(info.maxIdleTimeout().compareTo(info.defaultIdleTimeout()) >= 0);
    }

    @Test
    void modelsAreListedAndDescribed() {
        List<String> names = client.models().list().stream().map(ModelInfo::name).toList();
        assertTrue(names.containsAll(List.of("tiny", "gpt2")));
        ModelInfo model = client.models().get("");
        assertEquals("tiny", model.name());
        assertEquals(512, model.vocabSize());
        assertTrue(model.inputs().stream().anyMatch(input -> input.name().equals("input_ids")));
    }

    @Test
    void modelsAreLoadedAndUnloaded() {
        client.models().load("another", "tiny-gpt2");
        TokenloomException taken =
                assertThrows(TokenloomException.class, () -> client.models().load("another", "tiny-gpt2"));
        assertEquals("MODEL_EXISTS", taken.reason());
        client.models().unload("another");
        assertThrows(TokenloomException.class, () -> client.models().get("another"));
    }

    @Test
    void adaptersAreLoadedListedAndUnloaded() {
        assertTrue(client.models().loadAdapter("tiny", "b", "adapter_b.onnx_adapter").sizeBytes() > 0);
        assertEquals("b", client.models().listAdapters("tiny").get(0).name());
        client.models().unloadAdapter("tiny", "b");
        assertEquals(List.of(), client.models().listAdapters("tiny"));
    }

    @Test
    void textBecomesTokensAndTextAgain() {
        Tokenizer tokenizer = client.tokenizer();
        int[] tokens = tokenizer.encode("def main():");
        assertEquals("def main():", tokenizer.decode(tokens));
        List<int[]> several = tokenizer.encode(List.of("def main():", "class"), false);
        assertArrayEquals(tokens, several.get(0));
        assertEquals(List.of("def main():", "class"), tokenizer.decode(several, true));
    }

    @Test
    void aClientHasAModelOfItsOwn() {
        try (TokenloomClient gpt2 =
                        TokenloomClient.builder().target(server.target()).model("gpt2").build();
                Session session = gpt2.createSession()) {
            assertEquals("gpt2", session.state().model());
        }
    }

    @Test
    void oneShotTokensComeAsTheyAreMadeForEachRow() {
        GenerateRequest request = GenerateRequest.newBuilder()
                .addInputs(tokens(1, 2, 3))
                .addInputs(text("def"))
                .setGenerationConfig(FIVE)
                .build();
        try (TokenStream stream = client.generate(request)) {
            List<List<Integer>> ids = List.of(new ArrayList<>(), new ArrayList<>());
            stream.stream().forEach(token -> ids.get(token.row()).add(token.id()));
            List<RowSummary> results = stream.results();
            for (int row = 0; row < 2; row++) {
                assertArrayEquals(
                        results.get(row).tokenIds(), ids.get(row).stream().mapToInt(i -> i).toArray());
                assertEquals(FinishReason.LENGTH, results.get(row).finishReason());
            }
            assertEquals(3, results.get(0).promptTokens());
        }
    }

    @Test
    void anAnswerToAConversationIsText() {
        GenerateRequest request = GenerateRequest.newBuilder()
                .addInputs(Inputs.chat(Message.system("be brief"), Message.user("hi")))
                .setGenerationConfig(FIVE)
                .build();
        try (TokenStream answer = client.generate(request)) {
            String text = answer.text(0).collect(Collectors.joining());
            assertEquals(answer.results().get(0).text(), text);
        }
    }

    @Test
    void leavingAnAnswerEarlyEndsIt() {
        try (TokenStream answer = client.chat(Message.user("hi"))) {
            answer.next();
            answer.close();
            assertEquals(Code.CANCELLED, assertThrows(TokenloomException.class, answer::results).code());
        }
    }

    @Test
    void oneShotErrorsHaveDetails() {
        try (TokenStream nothing = client.generate(GenerateRequest.getDefaultInstance())) {
            TokenloomException error = assertThrows(TokenloomException.class, nothing::hasNext);
            assertEquals("inputs", error.fieldViolations().get(0).field());
        }
    }

    @Test
    void sessionsAreMadeWithoutWaiting() {
        try (Session session = client.createSessionAsync(CreateSessionRequest.getDefaultInstance()).join()) {
            assertEquals(0, session.tokenCount());
        }
    }

    @Test
    void interceptorsSeeEveryCall() {
        List<String> seen = new ArrayList<>();
        ClientInterceptor noting = new ClientInterceptor() {
            @Override
            public <Q, P> ClientCall<Q, P> interceptCall(
                    MethodDescriptor<Q, P> method, CallOptions options, Channel next) {
                seen.add(method.getBareMethodName());
                return next.newCall(method, options);
            }
        };
        try (TokenloomClient watched =
                        TokenloomClient.builder().target(server.target()).intercept(noting).build();
                Session session = watched.createSession(text("def"))) {
            session.stream(1).result();
        }
        assertEquals(List.of("CreateSession", "Converse", "CloseSession"), seen);
    }
}
