package tokenloom

import (
	"context"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// GenerateNextToken makes one step: a token for every unfinished row. It runs the model only where the logits are
// stale. Returns one token per row; rows that were finished give the pad token and don't grow.
//
// Errors: [ErrSessionEmpty], [ErrSessionDone], [ErrLogitsNotFinite].
func (s *Session) GenerateNextToken(
	ctx context.Context, more ...func(*pb.GenerateNextTokenRequest),
) ([]uint32, error) {
	return run(ctx, s, generateNextToken(more))
}

// GenerateTokens appends, edits, makes steps and reads logits, in this order, as one operation in one round trip. nil
// means steps until every row finishes; [Steps] asks for some. A generation that is cancelled keeps the tokens it
// made.
//
// Errors: those of Append, SetLogits and GenerateNextToken.
func (s *Session) GenerateTokens(
	ctx context.Context, request *pb.GenerateTokensRequest,
) (*pb.GenerateTokensResponse, error) {
	return run(ctx, s, generateTokens(request))
}

// GetNextTokens gives the tokens of the last step, one per row. Errors: [ErrNothingGenerated].
func (s *Session) GetNextTokens(ctx context.Context) ([]uint32, error) {
	return run(ctx, s, getNextTokens())
}

// GetSequence gives all tokens of a row, prompt included, and their text where more asks for it. Errors:
// INVALID_ARGUMENT (no such row, or a start past its length).
func (s *Session) GetSequence(
	ctx context.Context, row uint32, more ...func(*pb.GetSequenceRequest),
) (*pb.GetSequenceResponse, error) {
	return run(ctx, s, getSequence(row, more))
}

// GetText gives the text of a row, prompt included, without special tokens. Errors: [ErrNoTokenizer].
func (s *Session) GetText(ctx context.Context, row uint32) (string, error) {
	reply, err := s.GetSequence(ctx, row, withText)
	return reply.GetText(), err
}

func withText(request *pb.GetSequenceRequest) {
	request.ReturnText = true
}

// GetTokenCount asks for the state like [Session.Refresh], but waits for the operations before it, and counts as use.
func (s *Session) GetTokenCount(ctx context.Context) (*pb.SessionState, error) {
	return run(ctx, s, getTokenCount())
}
