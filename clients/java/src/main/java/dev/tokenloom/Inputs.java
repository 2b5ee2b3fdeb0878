package dev.tokenloom;

import dev.tokenloom.v1.ChatMessages;
import dev.tokenloom.v1.RowInput;
import dev.tokenloom.v1.TokenIds;
import java.util.Arrays;
import java.util.List;

/**
 * Content for the rows of a session: text, tokens or messages. The i-th is for row i, and there is one for each row;
 * with {@link #forRow} only the named rows are meant.
 */
public final class Inputs {
    private Inputs() {}

    /** Text, for the model's tokenizer. */
    public static RowInput text(String text) {
        return RowInput.newBuilder().setText(text).build();
    }

    /** Token ids, used as they are. */
    public static RowInput tokens(int... ids) {
        return RowInput.newBuilder().setTokens(tokenIds(ids)).build();
    }

    /** Messages, for the model's chat template, which then opens an assistant's message. */
    public static RowInput chat(Message... messages) {
        return chat(List.of(messages));
    }

    /** Messages, for the model's chat template, which then opens an assistant's message. */
    public static RowInput chat(List<Message> messages) {
        return RowInput.newBuilder().setChat(chatMessages(messages)).build();
    }

    /** The same content, for one row. */
    public static RowInput forRow(int row, RowInput content) {
        return content.toBuilder().setRow(row).build();
    }

    static TokenIds tokenIds(int... ids) {
        return TokenIds.newBuilder().addAllIds(Arrays.stream(ids).boxed()::iterator).build();
    }

    static ChatMessages chatMessages(List<Message> messages) {
        return ChatMessages.newBuilder()
                .addAllMessages(messages.stream().map(Message::toProto)::iterator)
                .build();
    }
}
