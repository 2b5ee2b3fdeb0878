package tokenloom

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Session is a batch of token sequences in the server, with its cache. Made by [Client.CreateSession], [Client.Attach]
// and [Session.Fork]. Its operations run one at a time, in order of arrival, whichever client they come from.
//
// Every operation may fail with [ErrSessionNotFound], [ErrSessionExpired] or [ErrQueueFull]; those whose request has
// an expected_length with [ErrPositionMismatch], changing nothing, where the session has another length.
type Session struct {
	client *Client
	id     string
	config *pb.GenerationConfig

	mu    sync.Mutex
	state *pb.SessionState
	isCut bool // A stream was cut off, and the server may not have noticed yet.
}

// opened is the reply that opens a session: of CreateSession, GetSession or ForkSession.
type opened interface {
	stateful
	GetGenerationConfig() *pb.GenerationConfig
}

func newSession(client *Client, reply opened) *Session {
	state := reply.GetState()
	return &Session{client: client, id: state.GetSessionId(), config: reply.GetGenerationConfig(), state: state}
}

// ID is the session's id, for [Client.Attach].
func (s *Session) ID() string {
	return s.id
}

// Config is the settings in force, with the seed that was drawn.
func (s *Session) Config() *pb.GenerationConfig {
	return s.config
}

// State is the state as of the last reply; nothing is sent. [Session.Refresh] asks for it anew.
func (s *Session) State() *pb.SessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Append adds content to rows and computes it. Clears finish reasons; may be done at any time, also after generation.
//
// Errors: INVALID_ARGUMENT (nothing to append, not one content per row, a token outside the vocabulary),
// [ErrContextLengthExceeded]; then nothing is appended to any row.
func (s *Session) Append(
	ctx context.Context, inputs []*pb.RowInput, more ...func(*pb.AppendTokensRequest),
) (*pb.SessionState, error) {
	return run(ctx, s, appendInputs(inputs, more))
}

// AppendTokens is [Session.Append] of token ids to a session of one row.
func (s *Session) AppendTokens(
	ctx context.Context, tokens []uint32, more ...func(*pb.AppendTokensRequest),
) (*pb.SessionState, error) {
	return s.Append(ctx, []*pb.RowInput{Tokens(tokens...)}, more...)
}

// AppendText is [Session.Append] of text to a session of one row. Errors: [ErrNoTokenizer], too.
func (s *Session) AppendText(
	ctx context.Context, text string, more ...func(*pb.AppendTokensRequest),
) (*pb.SessionState, error) {
	return s.Append(ctx, []*pb.RowInput{Text(text)}, more...)
}

// AppendMessages is [Session.Append] of messages, with the model's chat template, to a session of one row. It ends
// with the opening of an answer. Errors: [ErrNoChatTemplate], too.
func (s *Session) AppendMessages(
	ctx context.Context, messages []*pb.ChatMessage, more ...func(*pb.AppendTokensRequest),
) (*pb.SessionState, error) {
	return s.Append(ctx, []*pb.RowInput{Chat(messages...)}, more...)
}

// RewindTo cuts all rows, or the one that more names, back to their first tokens. Costs no model run; clears finish
// reasons. The same tokens are drawn again, unless more gives another seed. Errors: [ErrRewindBeyondLength].
func (s *Session) RewindTo(
	ctx context.Context, length uint32, more ...func(*pb.RewindToRequest),
) (*pb.SessionState, error) {
	return run(ctx, s, rewindTo(length, more))
}

// Fork makes a new session with the same tokens, cache and settings; this one goes on unchanged. nil means no other
// seed or settings. Errors: INVALID_ARGUMENT (a setting), [ErrSessionExists] (a proposed id), [ErrSessionLimit].
func (s *Session) Fork(ctx context.Context, request *pb.ForkSessionRequest) (*Session, error) {
	reply, err := run(ctx, s, fork(request))
	if err != nil {
		return nil, err
	}
	return newSession(s.client, reply), nil
}

// SetActiveAdapter switches to a loaded LoRA adapter, or back to the base model with "". What the cache holds stays as
// it is, unless more asks to recompute it. Errors: [ErrAdapterNotFound].
func (s *Session) SetActiveAdapter(
	ctx context.Context, adapter string, more ...func(*pb.SetActiveAdapterRequest),
) (*pb.SessionState, error) {
	return run(ctx, s, setActiveAdapter(adapter, more))
}

// SetRuntimeOption sets an option of the engine for this session, such as "terminate_session". Errors:
// INVALID_ARGUMENT listing the known keys.
func (s *Session) SetRuntimeOption(ctx context.Context, key, value string) (*pb.SessionState, error) {
	return run(ctx, s, setRuntimeOption(key, value))
}

// Interrupt ends the running generation, and those queued behind it, at a token boundary. They answer normally, with
// what they made.
func (s *Session) Interrupt(ctx context.Context) (*pb.SessionState, error) {
	return run(ctx, s, interrupt())
}

// Refresh asks for the state, for sessions that others write to, too. Doesn't wait for operations and doesn't count as
// use.
func (s *Session) Refresh(ctx context.Context) (*pb.SessionState, error) {
	return run(ctx, s, getSession())
}

// Close ends the session and frees what it holds; operations still queued fail. A session that is closed or expired
// already is no error.
func (s *Session) Close(ctx context.Context) error {
	_, err := run(ctx, s, closeSession())
	if errors.Is(err, ErrSessionNotFound) || errors.Is(err, ErrSessionExpired) {
		return nil
	}
	return err
}

// run sends an operation as a call.
func run[T any](ctx context.Context, s *Session, operation operation[T]) (T, error) {
	s.prepare(operation.request)
	reply, err := operation.call(ctx, s.client.generator)
	if err != nil {
		var none T
		return none, errorOf(err)
	}
	s.absorb(reply)
	return operation.decode(reply)
}

// prepare names the session, and gives an operation that changes it a request id.
func (s *Session) prepare(request proto.Message) {
	address(request, s.id)
	identify(request)
}

// absorb keeps the state that a reply tells, unless it is another session's, such as a fork's.
func (s *Session) absorb(reply proto.Message) {
	told, ok := reply.(stateful)
	if !ok || told.GetState().GetSessionId() != s.id {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = told.GetState()
}
