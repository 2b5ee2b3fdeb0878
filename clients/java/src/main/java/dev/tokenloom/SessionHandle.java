package dev.tokenloom;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.tokenloom.v1.GenerationConfig;

/** What is known of a session: the state that rides in every reply. */
final class SessionHandle {
    private final String id;
    private final GenerationConfig config;
    private volatile dev.tokenloom.v1.SessionState state;

    SessionHandle(dev.tokenloom.v1.SessionState state, GenerationConfig config) {
        this.id = state.getSessionId();
        this.config = config;
        this.state = state;
    }

    String id() {
        return id;
    }

    GenerationConfig config() {
        return config;
    }

    SessionState state() {
        return Convert.state(state);
    }

    /** The operation for this session; its reply is noted before anyone sees it. */
    <Q extends Message, P extends Message, T> Operation<Q, P, T> prepare(Operation<Q, P, T> operation) {
        Operation<Q, P, T> ours = operation.of(id);
        return new Operation<>(ours.method(), ours.request(), reply -> {
            note(reply);
            return ours.decode().apply(reply);
        });
    }

    private void note(Message reply) {
        FieldDescriptor field = reply.getDescriptorForType().findFieldByName("state");
        if (field != null
                && reply.getField(field) instanceof dev.tokenloom.v1.SessionState told
                && told.getSessionId().equals(id)) { // The state in a fork's reply is that of the fork.
            state = told;
        }
    }
}
