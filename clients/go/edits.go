package tokenloom

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// SetLogit replaces the logit of a token.
func SetLogit(token uint32, value float32) *pb.LogitsEdit {
	return SparseEdit(pb.EditOperation_EDIT_OPERATION_SET, []uint32{token}, []float32{value})
}

// AddLogit adds to the logit of a token.
func AddLogit(token uint32, value float32) *pb.LogitsEdit {
	return SparseEdit(pb.EditOperation_EDIT_OPERATION_ADD, []uint32{token}, []float32{value})
}

// MultiplyLogit multiplies the logit of a token.
func MultiplyLogit(token uint32, value float32) *pb.LogitsEdit {
	return SparseEdit(pb.EditOperation_EDIT_OPERATION_MULTIPLY, []uint32{token}, []float32{value})
}

// SparseEdit changes the logits of several tokens, each named once: one value per token. -inf is legal.
func SparseEdit(operation pb.EditOperation, tokens []uint32, values []float32) *pb.LogitsEdit {
	sparse := &pb.SparseEdit{Operation: operation, TokenIds: tokens, Values: values}
	return &pb.LogitsEdit{Edit: &pb.LogitsEdit_Sparse{Sparse: sparse}}
}

// Deny makes tokens impossible: their logits become -inf.
func Deny(tokens ...uint32) *pb.LogitsEdit {
	return &pb.LogitsEdit{Edit: &pb.LogitsEdit_DenyIds{DenyIds: &pb.TokenIds{Ids: tokens}}}
}

// Allow makes all tokens but some impossible. The mask has vocab_size entries; tokens whose entry is false become
// -inf.
func Allow(mask []bool) *pb.LogitsEdit {
	bits := make([]byte, (len(mask)+7)/8)
	for token, isAllowed := range mask {
		if isAllowed {
			bits[token/8] |= 1 << (token % 8)
		}
	}
	return &pb.LogitsEdit{Edit: &pb.LogitsEdit_AllowMask{AllowMask: bits}}
}

// DenseEdit replaces all logits: vocab_size values for each of the session's rows. -inf is legal, NaN and +inf are
// not.
func DenseEdit(rows [][]float32) (*pb.LogitsEdit, error) {
	tensor, err := matrix(rows)
	if err != nil {
		return nil, err
	}
	return &pb.LogitsEdit{Edit: &pb.LogitsEdit_Dense{Dense: tensor}}, nil
}

// EditRow makes an edit for one row only, instead of every unfinished one.
func EditRow(row uint32, edit *pb.LogitsEdit) *pb.LogitsEdit {
	named := proto.CloneOf(edit)
	named.Row = proto.Uint32(row)
	return named
}
