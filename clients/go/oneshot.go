package tokenloom

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Generate answers a batch of prompts, with no session to keep: what each row came to, by row. Rows finish
// independently; those that finish by nothing else finish at max_length.
//
// Errors: INVALID_ARGUMENT (no prompt, a setting), [ErrModelNotFound], [ErrAdapterNotFound],
// [ErrContextLengthExceeded], [ErrSessionLimit].
func (c *Client) Generate(ctx context.Context, request *pb.GenerateRequest) ([]*pb.RowSummary, error) {
	var summaries []*pb.RowSummary
	for reply, err := range c.generate(ctx, request) {
		if err != nil {
			return nil, err
		}
		if summary := reply.GetSummary(); summary != nil {
			summaries = append(summaries, summary)
		}
	}
	slices.SortFunc(summaries, func(a, b *pb.RowSummary) int { return cmp.Compare(a.GetRow(), b.GetRow()) })
	return summaries, nil
}

// GenerateStream is [Client.Generate], whose tokens come as they are made: those of all rows. Leaving the loop ends
// the generation. An error comes last.
func (c *Client) GenerateStream(ctx context.Context, request *pb.GenerateRequest) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		for reply, err := range c.generate(ctx, request) {
			if err != nil {
				yield(Token{}, err)
				return
			}
			for token := range tokensOf(reply.GetStep()) {
				if !yield(token, nil) {
					return
				}
			}
		}
	}
}

func (c *Client) generate(ctx context.Context, request *pb.GenerateRequest) iter.Seq2[*pb.GenerateResponse, error] {
	return func(yield func(*pb.GenerateResponse, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.generator.Generate(ctx, request)
		if err != nil {
			yield(nil, errorOf(err))
			return
		}
		for {
			reply, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(reply, errorOf(err)) || err != nil {
				return
			}
		}
	}
}
