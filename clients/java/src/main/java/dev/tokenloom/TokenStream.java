package dev.tokenloom;

import dev.tokenloom.v1.GenerateRequest;
import dev.tokenloom.v1.GenerateResponse;
import dev.tokenloom.v1.GeneratorGrpc;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.Context;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.TreeMap;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Tokens of a one-shot generation as they come, of any row. Close it to end the generation early; a reader that is slow
 * holds it back. For one thread.
 */
public final class TokenStream implements Iterator<Token>, AutoCloseable {
    private final Context.CancellableContext context = Context.current().withCancellation();
    private final Deque<Token> tokens = new ArrayDeque<>();
    private final TreeMap<Integer, RowSummary> summaries = new TreeMap<>();
    private Iterator<GenerateResponse> replies;

    TokenStream(Channel channel, GenerateRequest request) {
        context.run(() -> replies = ClientCalls.blockingServerStreamingCall(
                channel, GeneratorGrpc.getGenerateMethod(), CallOptions.DEFAULT, request));
    }

    @Override
    public boolean hasNext() {
        try {
            while (tokens.isEmpty() && replies.hasNext()) {
                receive(replies.next());
            }
        } catch (StatusRuntimeException error) {
            throw TokenloomException.of(error);
        }
        if (tokens.isEmpty()) {
            close();
        }
        return !tokens.isEmpty();
    }

    @Override
    public Token next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return tokens.remove();
    }

    /** The tokens that are still to come. Closing the stream ends the generation. */
    public Stream<Token> stream() {
        return StreamSupport.stream(
                        Spliterators.spliteratorUnknownSize(this, Spliterator.ORDERED | Spliterator.NONNULL), false)
                .onClose(this::close);
    }

    /** The text of one row that is still to come: whole characters, up to a stop string. */
    public Stream<String> text(int row) {
        return stream().filter(token -> token.row() == row && !token.text().isEmpty()).map(Token::text);
    }

    /** Wait for the end; what each row came to, by row. */
    public List<RowSummary> results() {
        while (hasNext()) {
            next();
        }
        return List.copyOf(summaries.values());
    }

    /** End the generation. */
    @Override
    public void close() {
        context.cancel(null);
    }

    private void receive(GenerateResponse reply) {
        if (reply.hasStep()) {
            tokens.addAll(Convert.step(reply.getStep()).tokens());
        } else {
            RowSummary summary = Convert.summary(reply.getSummary());
            summaries.put(summary.row(), summary);
        }
    }
}
