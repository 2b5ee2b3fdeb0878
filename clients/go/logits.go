package tokenloom

import (
	"fmt"
	"slices"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Logits are those for the next token of each row, finished rows included.
type Logits struct {
	// Values has vocab_size values for each row, or as many as were selected.
	Values [][]float32
	// TokenIDs has the token of each value, for a selection; nil where all were asked for.
	TokenIDs [][]uint32
}

// TopK selects the k largest logits of each row, in falling order. In [1, vocab_size].
func TopK(k uint32) *pb.LogitsSelector {
	return &pb.LogitsSelector{Selection: &pb.LogitsSelector_TopK{TopK: k}}
}

// Only selects the logits of these tokens, in this order.
func Only(tokens ...uint32) *pb.LogitsSelector {
	return &pb.LogitsSelector{Selection: &pb.LogitsSelector_TokenIds{TokenIds: &pb.TokenIds{Ids: tokens}}}
}

// ReadLogits decodes logits of a reply, such as those of [Session.GenerateTokens]. Nil where the reply has none.
func ReadLogits(encoded *pb.Logits) (*Logits, error) {
	if encoded == nil {
		return nil, nil
	}
	values, err := Elements[float32](encoded.GetValues())
	if err != nil {
		return nil, err
	}
	shape, ids := encoded.GetValues().GetShape(), encoded.GetTokenIds()
	if len(shape) != 2 || shape[1] == 0 || (len(ids) > 0 && len(ids) != len(values)) {
		return nil, fmt.Errorf("tokenloom: logits of shape %v with %d token ids", shape, len(ids))
	}
	width := int(shape[1])
	return &Logits{slices.Collect(slices.Chunk(values, width)), slices.Collect(slices.Chunk(ids, width))}, nil
}
