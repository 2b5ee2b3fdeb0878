package dev.tokenloom;

import dev.tokenloom.v1.AppendTokensRequest;
import dev.tokenloom.v1.CreateSessionResponse;
import dev.tokenloom.v1.ForkSessionRequest;
import dev.tokenloom.v1.ForkSessionResponse;
import dev.tokenloom.v1.GenerateNextTokenRequest;
import dev.tokenloom.v1.GenerateTokensRequest;
import dev.tokenloom.v1.GenerationConfig;
import dev.tokenloom.v1.GetLogitsRequest;
import dev.tokenloom.v1.GetSequenceRequest;
import dev.tokenloom.v1.GetSessionResponse;
import dev.tokenloom.v1.LogitsEdit;
import dev.tokenloom.v1.LogitsSelector;
import dev.tokenloom.v1.NamedTensor;
import dev.tokenloom.v1.RewindToRequest;
import dev.tokenloom.v1.RowInput;
import dev.tokenloom.v1.SetActiveAdapterRequest;
import dev.tokenloom.v1.SetInputsRequest;
import dev.tokenloom.v1.SetLogitsRequest;
import dev.tokenloom.v1.SetModelInputRequest;
import dev.tokenloom.v1.Tensor;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;

/**
 * A session in the server: a batch of token sequences with its cache. Operations run one at a time, in order of arrival,
 * whichever client they come from. After any error the session is at a token boundary and usable.
 *
 * <p>Methods that take a request fill in its session_id, and its request_id where it has none. Those that change the
 * session are thus sent again where no server answers, and nothing is done twice. All throw {@link TokenloomException}.
 */
public final class Session implements AutoCloseable {
    private final Transport transport;
    private final SessionHandle handle;

    private Session(Transport transport, SessionHandle handle) {
        this.transport = transport;
        this.handle = handle;
    }

    static Session of(Transport transport, CreateSessionResponse reply) {
        return new Session(transport, new SessionHandle(reply.getState(), reply.getGenerationConfig()));
    }

    static Session of(Transport transport, ForkSessionResponse reply) {
        return new Session(transport, new SessionHandle(reply.getState(), reply.getGenerationConfig()));
    }

    static Session of(Transport transport, GetSessionResponse reply) {
        return new Session(transport, new SessionHandle(reply.getState(), reply.getGenerationConfig()));
    }

    /** The session's id, for {@link TokenloomClient#attach}. */
    public String id() {
        return handle.id();
    }

    /** The settings in force, with the seed that was drawn. */
    public GenerationConfig generationConfig() {
        return handle.config();
    }

    /** The state as of the last reply; nothing is sent. */
    public SessionState state() {
        return handle.state();
    }

    /** Whether every row was finished as of the last reply. */
    public boolean isDone() {
        return state().isDone();
    }

    /** Tokens in the longest row as of the last reply. */
    public int tokenCount() {
        return state().length();
    }

    /** Append content to rows and compute it. Clears finish reasons; may be done at any time. */
    public SessionState append(RowInput... inputs) {
        return append(AppendTokensRequest.newBuilder().addAllInputs(List.of(inputs)).build());
    }

    /** As {@link #append(RowInput...)}. OUT_OF_RANGE past max_length: then nothing is appended to any row. */
    public SessionState append(AppendTokensRequest request) {
        return run(Operations.append(request));
    }

    /** One step: a token for every unfinished row. Returns one per row; finished rows give the pad token. */
    public int[] generateNextToken() {
        return generateNextToken(GenerateNextTokenRequest.getDefaultInstance());
    }

    /** As {@link #generateNextToken()}. FAILED_PRECONDITION: SESSION_EMPTY, SESSION_DONE. */
    public int[] generateNextToken(GenerateNextTokenRequest request) {
        return run(Operations.generateNextToken(request));
    }

    /** Up to this many steps in one round trip. */
    public Generated generateTokens(int steps) {
        return generateTokens(GenerateTokensRequest.newBuilder().setSteps(steps).build());
    }

    /** Appends, edits, steps and reads, in this order, as one operation. No steps given: until every row is finished. */
    public Generated generateTokens(GenerateTokensRequest request) {
        return run(Operations.generateTokens(request));
    }

    /** Up to this many steps, one by one as they are made. Close it, or take all steps. */
    public Generation stream(int steps) {
        return stream(GenerateTokensRequest.newBuilder().setSteps(steps).build(), StreamOptions.defaults());
    }

    /** As {@link #generateTokens(GenerateTokensRequest)}, step by step. Closing it ends the generation. */
    public Generation stream(GenerateTokensRequest request, StreamOptions options) {
        return converse().generateAlone(request, options);
    }

    /** The tokens of the last step, one per row. FAILED_PRECONDITION: NOTHING_GENERATED since append or rewind. */
    public int[] getNextTokens() {
        return run(Operations.getNextTokens());
    }

    /** All tokens of a row, prompt included. */
    public int[] getSequence(int row) {
        return getSequence(GetSequenceRequest.newBuilder().setRow(row).build()).tokenIds();
    }

    /** Tokens of a row, and their text if asked for. */
    public Sequence getSequence(GetSequenceRequest request) {
        return run(Operations.getSequence(request));
    }

    /** The text of a row, prompt included, without special tokens. */
    public String getText(int row) {
        return getSequence(GetSequenceRequest.newBuilder().setRow(row).setReturnText(true).build()).text();
    }

    /** Counts and finish reasons, asked of the server. */
    public SessionState getTokenCount() {
        return run(Operations.getTokenCount());
    }

    /** The state, asked of the server. Does not count as use: the expire time stays. */
    public SessionState refresh() {
        return run(Operations.getSession());
    }

    /** Cut all rows back to this many tokens. Costs no model run. FAILED_PRECONDITION: REWIND_BEYOND_LENGTH. */
    public SessionState rewindTo(int length) {
        return rewindTo(RewindToRequest.newBuilder().setLength(length).build());
    }

    /** As {@link #rewindTo(int)}, for one row or with another seed from here on. */
    public SessionState rewindTo(RewindToRequest request) {
        return run(Operations.rewindTo(request));
    }

    /** Logits for the next token, computed if stale, as last set by {@link #setLogits}. Changes nothing. */
    public Logits getLogits() {
        return getLogits(LogitsSelectors.all());
    }

    /** Some of the logits, see {@link LogitsSelectors}. */
    public Logits getLogits(LogitsSelector selector) {
        return run(Operations.getLogits(GetLogitsRequest.newBuilder().setSelector(selector).build()));
    }

    /** Change the logits the next step samples from, in order; see {@link LogitsEdits}. All or none are made. */
    public SessionState setLogits(LogitsEdit... edits) {
        return setLogits(SetLogitsRequest.newBuilder().addAllEdits(List.of(edits)).build());
    }

    public SessionState setLogits(SetLogitsRequest request) {
        return run(Operations.setLogits(request));
    }

    /** Set several named model inputs, for models with inputs beyond tokens; see {@link Tensors}. All or none are set. */
    public SessionState setInputs(SetInputsRequest request) {
        return run(Operations.setInputs(request));
    }

    /** Set one named model input. */
    public SessionState setModelInput(String name, Tensor value) {
        NamedTensor input = NamedTensor.newBuilder().setName(name).setTensor(value).build();
        return run(Operations.setModelInput(SetModelInputRequest.newBuilder().setInput(input).build()));
    }

    /** A model input as it was in the last run, or as set for the next. */
    public Tensor getInput(String name) {
        return run(Operations.getInput(name));
    }

    /** A model output of the last position, one entry per row in the first dimension; computed if stale. */
    public Tensor getOutput(String name) {
        return run(Operations.getOutput(name));
    }

    /** Switch to a loaded LoRA adapter; "" for the base model. */
    public SessionState setActiveAdapter(String adapter) {
        return setActiveAdapter(SetActiveAdapterRequest.newBuilder().setAdapter(adapter).build());
    }

    /** As {@link #setActiveAdapter(String)}; with recompute, what the cache holds is computed again. */
    public SessionState setActiveAdapter(SetActiveAdapterRequest request) {
        return run(Operations.setActiveAdapter(request));
    }

    /** Set an option of the engine for this session, such as "terminate_session". */
    public SessionState setRuntimeOption(String key, String value) {
        return run(Operations.setRuntimeOption(key, value));
    }

    /** End the running generation and those queued behind it, at a token boundary. They answer with interrupted set. */
    public SessionState interrupt() {
        return run(Operations.interrupt());
    }

    /** A new session with the same tokens, cache and settings. This one goes on unchanged. */
    public Session fork() {
        return fork(ForkSessionRequest.getDefaultInstance());
    }

    /** As {@link #fork()}, with another seed, other settings or a proposed id. */
    public Session fork(ForkSessionRequest request) {
        return run(Operations.fork(request).map(forked -> of(transport, forked)));
    }

    /** A stream for pipelined operations. While it is open no other stream can be; calls can. */
    public Conversation converse() {
        return new Conversation(transport, handle);
    }

    /** The same session, with calls that do not wait. */
    public AsyncSession async() {
        return new AsyncSession(transport, handle);
    }

    /** The same session, each of whose calls may take this long, retries included; DEADLINE_EXCEEDED after that. */
    public Session withTimeout(Duration timeout) {
        return new Session(transport.withTimeout(timeout), handle);
    }

    /** Close the session, and free what it holds. Does nothing where it is closed or expired already. */
    @Override
    public void close() {
        try {
            run(Operations.close());
        } catch (TokenloomException error) {
            if (error.code() != Status.Code.NOT_FOUND) {
                throw error;
            }
        }
    }

    private <T> T run(Operation<?, ?, T> operation) {
        return transport.run(handle.prepare(operation));
    }
}
