package tokenloom

import (
	"context"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// GetLogits gives the logits for the next token, as [Session.SetLogits] left them; computed if stale. nil selects all
// of them; see [TopK] and [Only]. Never changes what is generated. Errors: [ErrSessionEmpty].
func (s *Session) GetLogits(ctx context.Context, selector *pb.LogitsSelector) (*Logits, error) {
	return run(ctx, s, getLogits(selector))
}

// SetLogits changes the logits that the next step samples from. Edits are made in order, all or none; see [SetLogit],
// [Deny] and those beside them.
//
// Errors: INVALID_ARGUMENT (a value, a token, a row that would have no finite logit left), [ErrSessionEmpty].
func (s *Session) SetLogits(
	ctx context.Context, edits []*pb.LogitsEdit, more ...func(*pb.SetLogitsRequest),
) (*pb.SessionState, error) {
	return run(ctx, s, setLogits(edits, more))
}

// SetInputs sets named inputs of the model, for models with inputs beyond tokens; see [NewTensor]. All or none are
// set. Errors: INVALID_ARGUMENT (shape or type), [ErrInputNotFound], [ErrInputManaged].
func (s *Session) SetInputs(
	ctx context.Context, inputs []*pb.NamedTensor, more ...func(*pb.SetInputsRequest),
) (*pb.SessionState, error) {
	return run(ctx, s, setInputs(inputs, more))
}

// SetModelInput is [Session.SetInputs] of a single one.
func (s *Session) SetModelInput(
	ctx context.Context, name string, value *pb.Tensor, more ...func(*pb.SetModelInputRequest),
) (*pb.SessionState, error) {
	return run(ctx, s, setModelInput(name, value, more))
}

// GetInput gives an input of the model as it was in the last run, or as set for the next; see [Elements]. Errors:
// [ErrInputNotFound], [ErrNothingRun].
func (s *Session) GetInput(ctx context.Context, name string) (*pb.Tensor, error) {
	return run(ctx, s, getInput(name))
}

// GetOutput gives an output of the model for the last position, one entry per row in the first dimension; computed if
// stale. Errors: [ErrOutputNotFound].
func (s *Session) GetOutput(ctx context.Context, name string) (*pb.Tensor, error) {
	return run(ctx, s, getOutput(name))
}
