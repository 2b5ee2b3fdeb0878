package tokenloom

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Stream is [Session.GenerateTokens], whose tokens come as they are made: those of all rows. Leaving the loop ends the
// generation, and so does the context; what was generated stays in the session. An error comes last.
//
// A stream that is lost on the way is attached again, and nothing is missing or doubled. Operations of the session
// that are called inside the loop wait for the end of the generation; [Session.Interrupt] doesn't.
//
// Errors: those of [Session.GenerateTokens]; [ErrSessionAttached] where another stream holds the session;
// [ErrStreamLost] where attaching again failed, too.
func (s *Session) Stream(
	ctx context.Context, request *pb.GenerateTokensRequest, options ...StreamOption,
) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		streaming := streaming{session: s, request: copyOf(request), options: options, mayBeAttached: s.takeCut()}
		for !streaming.isFinished {
			if err := streaming.attempt(ctx, yield); err != nil {
				if err = streaming.pause(ctx, err); err != nil {
					yield(Token{}, err)
					return
				}
			}
		}
	}
}

// pauses are those before each further attempt to attach again, where nothing came in between.
var pauses = []time.Duration{
	0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
	1600 * time.Millisecond,
}

// streaming is a streamed generation: what is still to be asked for, and how much of what was asked for has come.
//
// A lost stream ends its generation at a token boundary, with tokens that the client may not have seen. The request id
// finds them: asked again under the same id, the server gives the answer of the operation that was cut off.
type streaming struct {
	session  *Session
	request  *pb.GenerateTokensRequest // For what is left.
	options  []StreamOption
	seen     map[uint32]progress // By row: what has come of the request.
	failures int

	isFinished    bool
	isLost        bool // A stream broke, and what it made is still to be found.
	mayBeAttached bool // A stream ended in a way that the server may not have noticed yet.
}

// progress is how much of a row has come.
type progress struct {
	tokens    int
	textBytes int
}

// attempt streams what is left. It finishes with the generation, or where the reader leaves.
func (s *streaming) attempt(ctx context.Context, yield func(Token, error) bool) error {
	if s.isLost {
		if err := s.recover(ctx, yield); err != nil || s.isFinished {
			return err
		}
	}
	identify(s.request)
	s.seen = map[uint32]progress{}
	conversation, err := s.session.Converse(ctx)
	if err != nil {
		return err
	}
	defer s.leave(ctx, conversation)
	for token, err := range conversation.GenerateTokens(s.request, s.options...).Tokens(ctx) {
		if err != nil {
			return err
		}
		s.failures = 0
		before := s.seen[token.Row]
		s.seen[token.Row] = progress{before.tokens + 1, before.textBytes + len(token.Text)}
		if !yield(token, nil) {
			break
		}
	}
	s.isFinished = true
	return nil
}

// leave detaches. A context that has ended cuts the stream off, which the server notices a little later.
func (s *streaming) leave(ctx context.Context, conversation *Conversation) {
	conversation.Close()
	if ctx.Err() != nil {
		s.session.setCut()
	}
}

// recover tells what was made but not seen, and leaves the rest to be asked for.
func (s *streaming) recover(ctx context.Context, yield func(Token, error) bool) error {
	// Where the server has not noticed the loss, the operation still runs.
	if _, err := s.session.Interrupt(ctx); err != nil {
		return err
	}
	again := proto.CloneOf(s.request)
	again.Steps, again.LogitsHook = proto.Uint32(0), nil
	made, err := s.session.GenerateTokens(ctx, again)
	if err != nil {
		return err
	}
	s.isLost = false
	s.request.RequestId, s.request.ExpectedLength, s.request.Inputs, s.request.Edits = "", nil, nil, nil
	if s.request.Steps != nil {
		*s.request.Steps -= made.GetSteps()
	}
	s.isFinished = s.request.Steps != nil && s.request.GetSteps() == 0 || made.GetState().GetIsDone()
	for token := range s.unseen(made.GetRows()) {
		if !yield(token, nil) {
			s.isFinished = true
			break
		}
	}
	return nil
}

// unseen iterates over the tokens that have not come, row by row.
func (s *streaming) unseen(rows []*pb.RowTokens) iter.Seq[Token] {
	step := &pb.StepEvent{}
	for _, row := range rows {
		seen, ids, text := s.seen[row.GetRow()], row.GetTokenIds(), row.GetText()
		step.Rows = append(step.Rows, &pb.RowTokens{
			Row:          row.GetRow(),
			TokenIds:     ids[min(seen.tokens, len(ids)):],
			Text:         text[min(seen.textBytes, len(text)):],
			FinishReason: row.GetFinishReason(),
		})
	}
	return tokensOf(step)
}

// pause waits before going on after an error; it gives back one after which that is no use.
func (s *streaming) pause(ctx context.Context, err error) error {
	var failed *Error
	isUnavailable := errors.As(err, &failed) && failed.Code == codes.Unavailable
	isAttached := s.mayBeAttached && errors.Is(err, ErrSessionAttached)
	isBroken := errors.Is(err, ErrStreamLost) || s.isLost && isUnavailable
	if s.failures == len(pauses) || !isAttached && !isBroken {
		return err
	}
	s.isLost = s.isLost || isBroken
	s.mayBeAttached = true
	select {
	case <-time.After(pauses[s.failures]):
		s.failures++
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

func (s *Session) setCut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isCut = true
}

// takeCut tells once whether a stream was cut off.
func (s *Session) takeCut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isCut := s.isCut
	s.isCut = false
	return isCut
}
