package dev.tokenloom;

import dev.tokenloom.v1.LogitsHookReply;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * A generation on a stream: its steps as they come, and the future of its result, whose rows have the tokens of all
 * steps, taken or not. Steps wait in a buffer until they are taken; with credits, the generation waits too.
 *
 * <p>Iterating ends with the generation, and throws its error. To end it early: {@link #interrupt} lets it answer with
 * what it made; {@link #cancel} and {@link #close} give it up. Each also ends the generations queued behind it.
 */
public final class Generation extends CompletableFuture<Generated> implements Iterable<Step>, AutoCloseable {
    private final Conversation conversation;
    private final StreamOptions options;
    private final boolean isAlone;
    private final Map<Integer, List<Token>> rows = new TreeMap<>(); // Of the receiving thread.
    private final BlockingQueue<Optional<Step>> steps = new LinkedBlockingQueue<>(); // Empty: there are no more.
    private volatile long id;
    private int untold;

    Generation(Conversation conversation, StreamOptions options, boolean isAlone) {
        this.conversation = conversation;
        this.options = options;
        this.isAlone = isAlone;
        whenComplete((generated, error) -> {
            steps.add(Optional.empty());
            if (isAlone) {
                conversation.detach();
            }
        });
    }

    /** The steps as they come. There is one sequence of steps: each is given once, however many iterators there are. */
    @Override
    public Iterator<Step> iterator() {
        return new Steps();
    }

    /** The tokens as they come, of all rows. */
    public Stream<Token> tokens() {
        return StreamSupport.stream(
                        Spliterators.spliteratorUnknownSize(iterator(), Spliterator.ORDERED | Spliterator.NONNULL), false)
                .flatMap(step -> step.tokens().stream());
    }

    /** The text of one row as it comes: whole characters, up to a stop string. */
    public Stream<String> text(int row) {
        return tokens().filter(token -> token.row() == row && !token.text().isEmpty()).map(Token::text);
    }

    /** Wait for the result. */
    public Generated result() {
        try {
            return Waiting.forResult(this);
        } finally {
            finish();
        }
    }

    /** End it at a token boundary; it answers with what it made, and interrupted set. */
    public CompletableFuture<SessionState> interrupt() {
        return conversation.interrupt();
    }

    /** End it at a token boundary, and give the result up. The session stays usable. */
    @Override
    public boolean cancel(boolean mayInterruptIfRunning) {
        if (!isDone()) {
            interrupt();
        }
        return super.cancel(mayInterruptIfRunning);
    }

    /** End it at a token boundary unless it has ended. */
    @Override
    public void close() {
        if (!isDone()) {
            interrupt();
        }
        finish();
    }

    StreamOptions options() {
        return options;
    }

    void startsAs(long operationId) {
        id = operationId;
    }

    void receive(Step step) {
        for (Token token : step.tokens()) {
            rows.computeIfAbsent(token.row(), row -> new ArrayList<>()).add(token);
        }
        if (options.listener() == null) {
            steps.add(Optional.of(step));
        } else if (!isDone()) {
            try {
                options.listener().accept(step);
                took();
            } catch (RuntimeException | Error failure) {
                fail(failure);
            }
        }
    }

    /** What the processor says; null where it failed. */
    LogitsHookReply process(Logits logits) {
        if (isDone()) {
            return null;
        }
        try {
            return options.processor().process(logits);
        } catch (RuntimeException | Error failure) {
            fail(failure);
            return null;
        }
    }

    /** The result, with the rows that a stream tells step by step only. */
    Generated withSteps(Generated told) {
        List<RowOutput> outputs = rows.values().stream().map(Generation::output).toList();
        return new Generated(told.state(), outputs, told.steps(), told.logits(), told.interrupted());
    }

    /** The caller's own code failed: the generation ends, and its caller gets that. What it asks for then comes after. */
    private void fail(Throwable failure) {
        interrupt();
        completeExceptionally(failure);
    }

    private void finish() {
        if (isAlone) {
            conversation.close();
        }
    }

    /** Credits go out by the half window. */
    private void took() {
        untold++;
        if (options.credits() > 0 && untold * 2 >= options.credits() && !isDone()) {
            conversation.grant(id, untold);
            untold = 0;
        }
    }

    private static RowOutput output(List<Token> tokens) {
        Token last = tokens.get(tokens.size() - 1);
        StringBuilder text = new StringBuilder();
        tokens.forEach(token -> text.append(token.text()));
        int[] ids = tokens.stream().mapToInt(Token::id).toArray();
        return new RowOutput(last.row(), ids, text.toString(), last.finishReason());
    }

    private final class Steps implements Iterator<Step> {
        private Step next;

        @Override
        public boolean hasNext() {
            if (next == null) {
                next = take();
            }
            return next != null;
        }

        @Override
        public Step next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            Step step = next;
            next = null;
            took();
            return step;
        }

        /** Null at the end. */
        private Step take() {
            try {
                Optional<Step> step = steps.take();
                if (step.isEmpty()) {
                    steps.add(step); // For whoever asks again.
                    result(); // Throws the error, if there is one.
                }
                return step.orElse(null);
            } catch (InterruptedException interrupted) {
                throw Waiting.interrupted();
            }
        }
    }
}
