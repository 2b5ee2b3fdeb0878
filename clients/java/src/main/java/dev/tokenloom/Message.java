package dev.tokenloom;

import dev.tokenloom.v1.ChatMessage;

/** One message of a conversation, for the model's chat template. Roles: "system", "user", "assistant". */
public record Message(String role, String content) {
    public static Message system(String content) {
        return new Message("system", content);
    }

    public static Message user(String content) {
        return new Message("user", content);
    }

    public static Message assistant(String content) {
        return new Message("assistant", content);
    }

    ChatMessage toProto() {
        return ChatMessage.newBuilder().setRole(role).setContent(content).build();
    }
}
