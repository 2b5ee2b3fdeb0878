import dev.tokenloom.Inputs;
import dev.tokenloom.Session;
import dev.tokenloom.TokenloomClient;
import dev.tokenloom.v1.CreateSessionRequest;
import dev.tokenloom.v1.GenerationConfig;
import dev.tokenloom.v1.RewindToRequest;

/** Several endings of one beginning, which is computed once. Usage: Rewind [HOST:PORT] */
public final class Rewind {
    public static void main(String[] arguments) {
        String target = arguments.length > 0 ? arguments[0] : TokenloomClient.DEFAULT_TARGET;
        CreateSessionRequest story = CreateSessionRequest.newBuilder()
                .addInputs(Inputs.text("Once upon a time, there was a"))
                .setGenerationConfig(GenerationConfig.newBuilder().setDoSample(true).setSeed(1))
                .build();
        try (TokenloomClient client = TokenloomClient.connect(target);
                Session session = client.createSession(story)) {
            int beginning = session.tokenCount();
            for (long seed = 1; seed <= 3; seed++) {
                session.rewindTo(RewindToRequest.newBuilder().setLength(beginning).setSeed(seed).build());
                System.out.println(seed + ":" + session.generateTokens(16).rows().get(0).text());
            }
        }
    }
}
