import dev.tokenloom.Generated;
import dev.tokenloom.Inputs;
import dev.tokenloom.RowOutput;
import dev.tokenloom.Session;
import dev.tokenloom.TokenloomClient;

/** Prompts of different lengths, generated together. Usage: Batch [HOST:PORT] */
public final class Batch {
    public static void main(String[] arguments) {
        String target = arguments.length > 0 ? arguments[0] : TokenloomClient.DEFAULT_TARGET;
        String[] prompts = {"The capital of France is", "One, two,", "def add(a, b):"};
        try (TokenloomClient client = TokenloomClient.connect(target);
                Session session = client.createSession(
                        Inputs.text(prompts[0]), Inputs.text(prompts[1]), Inputs.text(prompts[2]))) {
            Generated generated = session.generateTokens(16);
            for (RowOutput row : generated.rows()) {
                System.out.printf("%s|%s (%s)%n", prompts[row.row()], row.text(), row.finishReason());
            }
        }
    }
}
