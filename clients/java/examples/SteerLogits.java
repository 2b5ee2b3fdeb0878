import dev.tokenloom.Generation;
import dev.tokenloom.Inputs;
import dev.tokenloom.Logits;
import dev.tokenloom.LogitsEdits;
import dev.tokenloom.LogitsProcessor;
import dev.tokenloom.LogitsSelectors;
import dev.tokenloom.Session;
import dev.tokenloom.StreamOptions;
import dev.tokenloom.TokenloomClient;
import dev.tokenloom.v1.GenerateTokensRequest;
import dev.tokenloom.v1.LogitsHookReply;
import java.util.HashSet;
import java.util.Set;

/** Look at the likeliest tokens, forbid one, and never say a token twice. Usage: SteerLogits [HOST:PORT] */
public final class SteerLogits {
    public static void main(String[] arguments) {
        String target = arguments.length > 0 ? arguments[0] : TokenloomClient.DEFAULT_TARGET;
        try (TokenloomClient client = TokenloomClient.connect(target);
                Session session = client.createSession(Inputs.text("The capital of France is"))) {
            Logits best = session.getLogits(LogitsSelectors.topK(3));
            for (int i = 0; i < 3; i++) {
                String text = client.tokenizer().decode(best.tokenIds()[0][i]);
                System.out.printf("%8.3f %s%n", best.values()[0][i], text);
            }

            session.setLogits(LogitsEdits.deny(best.tokenIds()[0][0])); // For the next step.
            int next = session.generateNextToken()[0];
            System.out.println("without the likeliest:" + client.tokenizer().decode(next));

            GenerateTokensRequest ten = GenerateTokensRequest.newBuilder().setSteps(10).build();
            StreamOptions never = StreamOptions.defaults().withProcessor(LogitsSelectors.topK(11), neverTwice());
            System.out.print("without repetition:");
            try (Generation generation = session.stream(ten, never)) {
                generation.text(0).forEach(System.out::print);
            }
            System.out.println();
        }
    }

    /** Chooses the likeliest token that it did not choose before. */
    private static LogitsProcessor neverTwice() {
        Set<Integer> said = new HashSet<>();
        return logits -> {
            for (int id : logits.tokenIds()[0]) {
                if (said.add(id)) {
                    return LogitsHookReply.newBuilder()
                            .addEdits(LogitsEdits.set(new int[] {id}, new float[] {1e9f}))
                            .build();
                }
            }
            throw new IllegalStateException("all of the likeliest were said");
        };
    }
}
