package tokenloom

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Hook is called with the logits before each step of a generation: a logits processor or stopping criterion. The
// server waits for what it returns: edits for this step, and rows to finish now without a token; nil for nothing. Its
// error ends the generation and is the generation's. Its context is the stream's. Waiting in it for an operation of
// the session is waiting forever: operations wait for the generation.
type Hook func(ctx context.Context, logits *Logits) (*pb.LogitsHookReply, error)

// StreamOption says how the steps of a generation travel.
type StreamOption func(*Generation)

// WithHook has a function called before each step, with the logits that are selected; nil selects all of them.
func WithHook(selector *pb.LogitsSelector, hook Hook) StreamOption {
	return func(g *Generation) {
		g.request.LogitsHook = &pb.LogitsHook{Selector: selector}
		g.hook = hook
	}
}

// WithCredits lets the generation wait for its reader once so many steps, at least 1, were not iterated over.
func WithCredits(steps uint32) StreamOption {
	return func(g *Generation) { g.credits = proto.Uint32(steps) }
}

// Generation is a generation on a stream: its tokens as they come, and its coming result.
type Generation struct {
	conversation *Conversation
	future       *Future[*pb.GenerateTokensResponse]
	request      *pb.GenerateTokensRequest
	hook         Hook
	credits      *uint32
	id           uint64
	steps        *queue[*pb.StepEvent]
	rows         map[uint32]*pb.RowTokens // What all steps brought. Only the stream's receiver touches it.

	mu      sync.Mutex
	untold  uint32 // Steps iterated over that the server has no credits for yet.
	hookErr error
}

// GenerateTokens is [Session.GenerateTokens], whose tokens can be iterated over as they come.
func (c *Conversation) GenerateTokens(request *pb.GenerateTokensRequest, options ...StreamOption) *Generation {
	operation := generateTokens(request)
	g := &Generation{
		conversation: c, future: newFuture(operation), request: operation.request.(*pb.GenerateTokensRequest),
		steps: newQueue[*pb.StepEvent](), rows: map[uint32]*pb.RowTokens{},
		hook: func(context.Context, *Logits) (*pb.LogitsHookReply, error) { return nil, nil },
	}
	for _, option := range options {
		option(g)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start(g.request, g.credits, g)
	return g
}

// Tokens iterates over the tokens of all rows as they come, each given once. It ends with the generation, whose error
// comes last. Leaving the loop leaves the generation running: [Conversation.Interrupt] ends it.
func (g *Generation) Tokens(ctx context.Context) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		for {
			step, ok, err := g.steps.take(ctx)
			if err != nil {
				yield(Token{}, contextError(ctx))
				return
			}
			if !ok {
				break
			}
			g.took()
			for token := range tokensOf(step) {
				if !yield(token, nil) {
					return
				}
			}
		}
		if _, err := g.future.Wait(ctx); err != nil {
			yield(Token{}, err)
		}
	}
}

// Wait waits for the end. The result's rows have the tokens of all steps, iterated over or not.
func (g *Generation) Wait(ctx context.Context) (*pb.GenerateTokensResponse, error) {
	for _, err := range g.Tokens(ctx) { // What nobody takes would use up the credits.
		if err != nil {
			return nil, err
		}
	}
	return g.future.Wait(ctx)
}

// Done is closed when the generation has ended.
func (g *Generation) Done() <-chan struct{} {
	return g.future.Done()
}

func (g *Generation) receive(step *pb.StepEvent) {
	for _, made := range step.GetRows() {
		row, ok := g.rows[made.GetRow()]
		if !ok {
			row = &pb.RowTokens{Row: made.GetRow()}
			g.rows[made.GetRow()] = row
		}
		row.TokenIds = append(row.TokenIds, made.GetTokenIds()...)
		row.Text += made.GetText()
		row.FinishReason = made.GetFinishReason()
	}
	g.steps.push(step)
}

// took grants credits for a step that was taken. They go out by the half window.
func (g *Generation) took() {
	if g.credits == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.untold++
	if 2*g.untold < *g.credits {
		return
	}
	grant := &pb.GrantCredits{Events: g.untold}
	g.tell(&pb.ConverseRequest{Operation: &pb.ConverseRequest_GrantCredits{GrantCredits: grant}})
	g.untold = 0
}

// answer calls the hook. It runs beside the receiver, which the hook may need.
func (g *Generation) answer(call *pb.LogitsHookCall) {
	logits, err := ReadLogits(call.GetLogits())
	var reply *pb.LogitsHookReply
	if err == nil {
		reply, err = g.hook(g.conversation.ctx, logits)
	}
	if err != nil {
		g.mu.Lock()
		g.hookErr = err
		g.mu.Unlock()
		g.conversation.Interrupt()
		return
	}
	if reply == nil {
		reply = &pb.LogitsHookReply{}
	}
	g.tell(&pb.ConverseRequest{Operation: &pb.ConverseRequest_LogitsHookReply{LogitsHookReply: reply}})
}

// tell sends what belongs to a running generation. A stream that has ended drops it.
func (g *Generation) tell(message *pb.ConverseRequest) {
	message.OperationId = g.id
	g.conversation.outgoing.push(message)
}

func (g *Generation) succeed(reply proto.Message) {
	if made, ok := reply.(*pb.GenerateTokensResponse); ok {
		for _, row := range slices.Sorted(maps.Keys(g.rows)) {
			made.Rows = append(made.Rows, g.rows[row])
		}
	}
	if err := g.hookError(); err != nil {
		g.future.fail(err)
	} else {
		g.future.succeed(reply)
	}
	g.steps.close()
}

func (g *Generation) fail(err error) {
	g.future.fail(cmp.Or(g.hookError(), err))
	g.steps.close()
}

func (g *Generation) hookError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hookErr
}
