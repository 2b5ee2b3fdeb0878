package tokenloom

import (
	"context"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Tokenizer turns text into tokens and back with a model's tokenizer. Made by [Client.Tokenizer]; keeps nothing.
type Tokenizer struct {
	stub  pb.TokenizerClient
	model string
}

// Tokenizer is that of a loaded model; empty: the default. Errors of its methods: [ErrModelNotFound],
// [ErrNoTokenizer].
func (c *Client) Tokenizer(model string) *Tokenizer {
	return &Tokenizer{c.tokenizer, model}
}

// Encode gives the tokens of a text, without special tokens but those that more asks for.
func (t *Tokenizer) Encode(ctx context.Context, text string, more ...func(*pb.EncodeRequest)) ([]uint32, error) {
	return first(t.EncodeAll(ctx, []string{text}, more...))
}

// EncodeAll is [Tokenizer.Encode] for several texts: the tokens of each, without padding.
func (t *Tokenizer) EncodeAll(
	ctx context.Context, texts []string, more ...func(*pb.EncodeRequest),
) ([][]uint32, error) {
	request := filled(&pb.EncodeRequest{Model: t.model, Texts: texts}, more)
	reply, err := checked(t.stub.Encode(ctx, request))
	var sequences [][]uint32
	for _, sequence := range reply.GetSequences() {
		sequences = append(sequences, sequence.GetIds())
	}
	return sequences, err
}

// Decode gives the text of tokens, special tokens left out. Errors: INVALID_ARGUMENT naming a token that isn't in
// [0, vocab_size).
func (t *Tokenizer) Decode(ctx context.Context, tokens []uint32, more ...func(*pb.DecodeRequest)) (string, error) {
	return first(t.DecodeAll(ctx, [][]uint32{tokens}, more...))
}

// DecodeAll is [Tokenizer.Decode] for several sequences of tokens.
func (t *Tokenizer) DecodeAll(
	ctx context.Context, sequences [][]uint32, more ...func(*pb.DecodeRequest),
) ([]string, error) {
	request := &pb.DecodeRequest{Model: t.model}
	for _, sequence := range sequences {
		request.Sequences = append(request.Sequences, &pb.TokenIds{Ids: sequence})
	}
	reply, err := checked(t.stub.Decode(ctx, filled(request, more)))
	return reply.GetTexts(), err
}

// ApplyChatTemplate gives what the model's chat template makes of messages, oldest first: the text and its tokens. It
// ends with the opening of an answer, unless more says otherwise. Errors: INVALID_ARGUMENT (no message),
// [ErrNoChatTemplate].
func (t *Tokenizer) ApplyChatTemplate(
	ctx context.Context, messages []*pb.ChatMessage, more ...func(*pb.ApplyChatTemplateRequest),
) (*pb.ApplyChatTemplateResponse, error) {
	request := &pb.ApplyChatTemplateRequest{Model: t.model, Chat: &pb.ChatMessages{Messages: messages}}
	return checked(t.stub.ApplyChatTemplate(ctx, filled(request, more)))
}

// TokenIDs gives the ids of tokens by their exact spelling in the vocabulary. Errors: INVALID_ARGUMENT for an unknown
// one.
func (t *Tokenizer) TokenIDs(ctx context.Context, spellings ...string) ([]uint32, error) {
	reply, err := checked(t.stub.GetTokenIds(ctx, &pb.GetTokenIdsRequest{Model: t.model, Tokens: spellings}))
	return reply.GetIds(), err
}

// first is the only item of a batch of one.
func first[T any](items []T, err error) (T, error) {
	if len(items) == 0 {
		var none T
		return none, err
	}
	return items[0], err
}
