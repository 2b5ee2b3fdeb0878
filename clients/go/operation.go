package tokenloom

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// operation is a request to a session and what to make of its reply. Sessions and conversations send the same ones,
// the former by call, the latter as a message of their stream.
type operation[T any] struct {
	request proto.Message
	call    func(context.Context, pb.GeneratorClient) (proto.Message, error)
	decode  func(proto.Message) (T, error)
}

// stateful is a reply that tells the state of a session.
type stateful interface {
	GetState() *pb.SessionState
}

func newOperation[Q, R proto.Message, T any](
	method func(pb.GeneratorClient, context.Context, Q, ...grpc.CallOption) (R, error),
	request Q, more []func(Q), decode func(R) (T, error),
) operation[T] {
	return operation[T]{
		request: filled(request, more),
		call: func(ctx context.Context, stub pb.GeneratorClient) (proto.Message, error) {
			return method(stub, ctx, request)
		},
		decode: func(reply proto.Message) (T, error) {
			if expected, ok := reply.(R); ok {
				return decode(expected)
			}
			var none T
			return none, fmt.Errorf("tokenloom: the server answered with %T", reply)
		},
	}
}

// filled is the request after each function has filled in what it likes.
func filled[Q any](request Q, more []func(Q)) Q {
	for _, fill := range more {
		fill(request)
	}
	return request
}

// just decodes a reply of which one field is wanted.
func just[R, T any](get func(R) T) func(R) (T, error) {
	return func(reply R) (T, error) { return get(reply), nil }
}

// whole decodes a reply that is wanted as it is.
func whole[R any](reply R) (R, error) {
	return reply, nil
}
