package tokenloom

import (
	"context"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Future is the coming result of an operation of a [Conversation].
type Future[T any] struct {
	operation operation[T]
	done      chan struct{}
	result    T // This and err: read once done is closed.
	err       error
}

func newFuture[T any](operation operation[T]) *Future[T] {
	return &Future[T]{operation: operation, done: make(chan struct{})}
}

// Done is closed when the result is there.
func (f *Future[T]) Done() <-chan struct{} {
	return f.done
}

// Wait waits for the result. Its error is the operation's; [ErrStreamLost] where the stream broke; the context's where
// that ended first, and then the operation goes on.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.result, f.err
	case <-ctx.Done():
		var none T
		return none, contextError(ctx)
	}
}

func (f *Future[T]) succeed(reply proto.Message) {
	f.result, f.err = f.operation.decode(reply)
	close(f.done)
}

func (f *Future[T]) fail(err error) {
	f.err = err
	close(f.done)
}

// contextError is the error for a context that has ended.
func contextError(ctx context.Context) *Error {
	return fromStatus(status.FromContextError(ctx.Err()))
}
