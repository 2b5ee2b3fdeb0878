import dev.tokenloom.Generation;
import dev.tokenloom.Inputs;
import dev.tokenloom.Message;
import dev.tokenloom.Session;
import dev.tokenloom.StreamOptions;
import dev.tokenloom.TokenloomClient;
import dev.tokenloom.v1.GenerateTokensRequest;
import java.util.Scanner;

/** Chat: each message is computed once only. Usage: Chat [HOST:PORT]; an empty line ends it. */
public final class Chat {
    public static void main(String[] arguments) {
        String target = arguments.length > 0 ? arguments[0] : TokenloomClient.DEFAULT_TARGET;
        try (TokenloomClient client = TokenloomClient.connect(target);
                Session session = client.createSession();
                Scanner lines = new Scanner(System.in)) {
            System.out.print("You: ");
            while (lines.hasNextLine()) {
                String question = lines.nextLine();
                if (question.isEmpty()) {
                    break;
                }
                GenerateTokensRequest answer = GenerateTokensRequest.newBuilder()
                        .addInputs(Inputs.chat(Message.user(question)))
                        .setSteps(200)
                        .build();
                System.out.print("Model: ");
                try (Generation generation = session.stream(answer, StreamOptions.defaults())) {
                    generation.text(0).forEach(System.out::print);
                }
                System.out.print("\nYou: ");
            }
        }
    }
}
