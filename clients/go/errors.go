package tokenloom

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// ErrStreamLost is in the chain of errors of a [Conversation] or [Session.Stream] whose stream broke. The session
// lives on in the server: converse again.
var ErrStreamLost = errors.New("the stream broke")

// Error is what a call, or an operation of a stream, failed with.
//
// errors.Is finds its [Reason], and context.Canceled or context.DeadlineExceeded where that is what happened.
// status.FromError gives the status with the google.rpc details it was made of.
type Error struct {
	// Code is gRPC's.
	Code codes.Code
	// Reason is for programs, stable, and empty where the server gave none.
	Reason Reason
	// Message is for people; it may change.
	Message string
	// Metadata has the values behind the message: limits, lengths, names.
	Metadata map[string]string
	// Fields are those at fault in the request, for INVALID_ARGUMENT.
	Fields []*errdetails.BadRequest_FieldViolation
	// RetryDelay is how long to wait before trying again; 0 where waiting doesn't help.
	RetryDelay time.Duration

	status *status.Status
}

// Error tells the message with what programs go by.
func (e *Error) Error() string {
	if e.Reason == "" {
		return e.Code.String() + ": " + e.Message
	}
	return e.Code.String() + " (" + string(e.Reason) + "): " + e.Message
}

// GRPCStatus is the status with its details, for status.FromError and status.Code.
func (e *Error) GRPCStatus() *status.Status {
	return e.status
}

// Unwrap gives what errors.Is compares with.
func (e *Error) Unwrap() []error {
	var chain []error
	if e.Reason != "" {
		chain = append(chain, e.Reason)
	}
	switch {
	case e.Code == codes.DeadlineExceeded:
		chain = append(chain, context.DeadlineExceeded)
	case e.Code == codes.Canceled && (e.Reason == "" || e.Reason == ErrCancelled): // Not where its session was closed.
		chain = append(chain, context.Canceled)
	}
	return chain
}

// errorOf is the error for what a stub returned.
func errorOf(err error) error {
	if err == nil {
		return nil
	}
	return fromStatus(status.Convert(err))
}

func fromStatus(failed *status.Status) *Error {
	made := &Error{Code: failed.Code(), Message: failed.Message(), status: failed}
	for _, detail := range failed.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			made.Reason, made.Metadata = Reason(detail.GetReason()), detail.GetMetadata()
		case *errdetails.BadRequest:
			made.Fields = detail.GetFieldViolations()
		case *errdetails.RetryInfo:
			made.RetryDelay = detail.GetRetryDelay().AsDuration()
		}
	}
	return made
}

// fromOperation is the error for one that came inside a stream, with the details that a call would have had.
func fromOperation(failed *pb.OperationError) *Error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{
		Reason: failed.GetReason(), Domain: "tokenloom.dev", Metadata: failed.GetMetadata(),
	}}
	if violations := failed.GetFieldViolations(); len(violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, each := range violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: each.GetField(), Description: each.GetDescription(),
			})
		}
		details = append(details, bad)
	}
	if failed.RetryDelay != nil {
		details = append(details, &errdetails.RetryInfo{RetryDelay: failed.GetRetryDelay()})
	}
	plain := status.New(codes.Code(failed.GetCode()), failed.GetMessage())
	detailed, err := plain.WithDetails(details...)
	if err != nil { // A code of OK, which no server sends.
		detailed = plain
	}
	return fromStatus(detailed)
}

// checked is a reply, with its error as one of this package.
func checked[R any](reply R, err error) (R, error) {
	return reply, errorOf(err)
}
