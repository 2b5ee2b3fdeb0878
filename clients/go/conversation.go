package tokenloom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Conversation is a stream attached to a session, made by [Session.Converse]. Methods send their operation at once, in
// the order they are called, and return a [Future]; a failed operation leaves the stream open.
type Conversation struct {
	session  *Session
	stream   grpc.BidiStreamingClient[pb.ConverseRequest, pb.ConverseResponse]
	ctx      context.Context // The stream's: it ends with it.
	outgoing *queue[*pb.ConverseRequest]
	ended    chan struct{}

	mu      sync.Mutex
	lastID  uint64
	pending map[uint64]pending
	failure error // What operations that start now fail with.
}

// pending is an operation that waits for its reply.
type pending interface {
	succeed(reply proto.Message)
	fail(err error)
}

// attaching is the stream's first operation. Where it fails, so does every other one.
type attaching struct{}

const attachID = 1

func (attaching) succeed(proto.Message) {}

func (attaching) fail(error) {}

// Converse opens a stream for pipelined operations. While it is open no other stream can be; calls can. The stream
// ends with the context, and a running generation with it; better [Conversation.Close] it.
//
// Operations fail with [ErrSessionAttached] where another stream holds the session.
func (s *Session) Converse(ctx context.Context) (*Conversation, error) {
	ctx, cancel := context.WithCancel(context.WithValue(ctx, streamSession{}, s.id))
	stream, err := s.client.generator.Converse(ctx)
	if err != nil {
		cancel()
		return nil, streamError(err)
	}
	c := &Conversation{
		session: s, stream: stream, ctx: ctx,
		outgoing: newQueue[*pb.ConverseRequest](), ended: make(chan struct{}), pending: map[uint64]pending{},
	}
	c.start(&pb.AttachSessionRequest{}, nil, attaching{})
	go c.run(cancel)
	return c, nil
}

// Close ends a running generation at a token boundary, detaches, and waits until the server has noticed or the
// stream's context has ended. The session lives on.
func (c *Conversation) Close() {
	c.mu.Lock()
	for _, each := range c.pending {
		if _, isGeneration := each.(*Generation); isGeneration {
			ending := newFuture(interrupt())
			c.start(ending.operation.request, nil, ending)
			break
		}
	}
	c.failure = cmp.Or(c.failure, errClosed())
	c.outgoing.close()
	c.mu.Unlock()
	<-c.ended
}

// send starts an operation; its reply comes to the future.
func send[T any](c *Conversation, operation operation[T]) *Future[T] {
	future := newFuture(operation)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start(operation.request, nil, future)
	return future
}

// start numbers an operation and sends it; c.mu is held. On a stream that has ended it fails at once.
func (c *Conversation) start(request proto.Message, credits *uint32, waiting pending) {
	if c.failure != nil {
		waiting.fail(c.failure)
		return
	}
	c.session.prepare(request)
	c.lastID++
	if generation, ok := waiting.(*Generation); ok {
		generation.id = c.lastID
	}
	c.pending[c.lastID] = waiting
	c.outgoing.push(wrap(request, c.lastID, credits))
}

// run passes messages both ways until the stream ends.
func (c *Conversation) run(cancel context.CancelFunc) {
	sent := make(chan error, 1)
	go func() { sent <- c.sendAll() }()
	err := c.receiveAll()
	cancel()
	// A message that can't be sent, one that is too large say, cancels the stream: that is the reason then.
	if unsent := <-sent; unsent != nil && !errors.Is(unsent, io.EOF) && status.Code(unsent) != codes.Canceled {
		err = unsent
	}
	c.end(streamError(err))
	close(c.ended)
}

func (c *Conversation) sendAll() error {
	for {
		message, ok, err := c.outgoing.take(c.ctx)
		if err != nil {
			return nil // The stream has ended, which the receiver tells.
		}
		if !ok {
			return c.stream.CloseSend()
		}
		if err := c.stream.Send(message); err != nil {
			return err
		}
	}
}

func (c *Conversation) receiveAll() error {
	for {
		message, err := c.stream.Recv()
		if err != nil {
			return err
		}
		c.receive(message)
	}
}

func (c *Conversation) receive(message *pb.ConverseResponse) {
	waiting, ok := c.find(message)
	if !ok {
		return // Of an operation that has failed already.
	}
	generation, _ := waiting.(*Generation)
	switch result := message.GetResult().(type) {
	case *pb.ConverseResponse_Step:
		generation.receive(result.Step)
	case *pb.ConverseResponse_LogitsHookCall:
		go generation.answer(result.LogitsHookCall)
	case *pb.ConverseResponse_Error:
		err := fromOperation(result.Error)
		waiting.fail(err)
		if message.GetOperationId() == attachID {
			c.end(err)
		}
	default:
		reply := unwrap(message)
		c.session.absorb(reply)
		waiting.succeed(reply)
	}
}

func (c *Conversation) find(message *pb.ConverseResponse) (pending, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting, ok := c.pending[message.GetOperationId()]
	if message.GetFinal() {
		delete(c.pending, message.GetOperationId())
	}
	return waiting, ok
}

// end fails what is pending, and what starts from now on.
func (c *Conversation) end(err error) {
	c.mu.Lock()
	c.failure = cmp.Or(c.failure, err)
	rest := c.pending
	c.pending = map[uint64]pending{}
	c.outgoing.close()
	c.mu.Unlock()
	for _, each := range rest {
		each.fail(err)
	}
}

// streamError is the error for the end of a stream. A broken transport is told apart from an answer of the server: a
// proxy whose server dies resets the stream, which arrives as INTERNAL without details.
func streamError(err error) error {
	if errors.Is(err, io.EOF) {
		return errClosed()
	}
	failed := fromStatus(status.Convert(err))
	if failed.Code == codes.Unavailable || (failed.Code == codes.Internal && failed.Reason == "") {
		return fmt.Errorf("%w: %w", ErrStreamLost, failed)
	}
	return failed
}

func errClosed() error {
	return fromStatus(status.New(codes.Canceled, "the conversation is closed"))
}
