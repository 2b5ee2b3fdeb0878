package dev.tokenloom;

import dev.tokenloom.v1.ApplyChatTemplateRequest;
import dev.tokenloom.v1.DecodeRequest;
import dev.tokenloom.v1.EncodeRequest;
import dev.tokenloom.v1.GetTokenIdsRequest;
import dev.tokenloom.v1.TokenizerGrpc;
import java.util.List;

/** Text to tokens and back, with the tokenizer of a model; made by {@link TokenloomClient#tokenizer}. */
public final class Tokenizer {
    private final Transport transport;
    private final String model;

    Tokenizer(Transport transport, String model) {
        this.transport = transport;
        this.model = model;
    }

    /** The tokens of a text, without special tokens of the tokenizer's own. */
    public int[] encode(String text) {
        return encode(List.of(text), false).get(0);
    }

    /** The tokens of several texts, each of its own length. addSpecialTokens: let the tokenizer add its own. */
    public List<int[]> encode(List<String> texts, boolean addSpecialTokens) {
        EncodeRequest request = EncodeRequest.newBuilder()
                .setModel(model)
                .addAllTexts(texts)
                .setAddSpecialTokens(addSpecialTokens)
                .build();
        return transport.call(TokenizerGrpc.getEncodeMethod(), request).getSequencesList().stream()
                .map(sequence -> Convert.ints(sequence.getIdsList()))
                .toList();
    }

    /** The text of tokens, without special tokens. */
    public String decode(int... tokens) {
        return decode(List.of(tokens), true).get(0);
    }

    /** The texts of several sequences. */
    public List<String> decode(List<int[]> sequences, boolean skipSpecialTokens) {
        DecodeRequest request = DecodeRequest.newBuilder()
                .setModel(model)
                .addAllSequences(sequences.stream().map(Inputs::tokenIds)::iterator)
                .setSkipSpecialTokens(skipSpecialTokens)
                .build();
        return List.copyOf(transport.call(TokenizerGrpc.getDecodeMethod(), request).getTextsList());
    }

    /** What the model's chat template makes of a conversation, ending with the opening of an answer. */
    public ChatPrompt applyChatTemplate(List<Message> messages) {
        ApplyChatTemplateRequest request = ApplyChatTemplateRequest.newBuilder()
                .setModel(model)
                .setChat(Inputs.chatMessages(messages))
                .build();
        var reply = transport.call(TokenizerGrpc.getApplyChatTemplateMethod(), request);
        return new ChatPrompt(reply.getText(), Convert.ints(reply.getTokens().getIdsList()));
    }

    /** The ids of single tokens by their exact spelling in the vocabulary. */
    public int[] tokenIds(String... tokens) {
        GetTokenIdsRequest request = GetTokenIdsRequest.newBuilder()
                .setModel(model)
                .addAllTokens(List.of(tokens))
                .build();
        return Convert.ints(transport.call(TokenizerGrpc.getGetTokenIdsMethod(), request).getIdsList());
    }
}
