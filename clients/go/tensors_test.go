package tokenloom_test

import (
	"math"
	"testing"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

func TestTensorsHoldTheirElements(t *testing.T) {
	floats := []float32{0, -1.5, float32(math.Inf(-1)), math.MaxFloat32}
	equal(t, "floats", must(tokenloom.Elements[float32](must(tokenloom.NewTensor(floats, 2, 2))(t)))(t), floats)
	numbers := []int64{math.MinInt64, -1, math.MaxInt64}
	equal(t, "longs", must(tokenloom.Elements[int64](must(tokenloom.NewTensor(numbers, 3))(t)))(t), numbers)
	small := []int32{math.MinInt32, math.MaxInt32}
	equal(t, "ints", must(tokenloom.Elements[int32](must(tokenloom.NewTensor(small, 2, 1))(t)))(t), small)
	truths := []bool{true, false}
	equal(t, "truths", must(tokenloom.Elements[bool](must(tokenloom.NewTensor(truths, 2))(t)))(t), truths)
	equal(t, "scalar", must(tokenloom.NewTensor([]float32{1}))(t).GetData(), []byte{0, 0, 0x80, 0x3f})
}

func TestHalvesAreReadAsFloats(t *testing.T) {
	halves := &pb.Tensor{
		Dtype: pb.DataType_DATA_TYPE_FLOAT16,
		Shape: []uint32{6},
		Data:  []byte{0, 0x3c, 0, 0xc1, 1, 0, 0xff, 0x7b, 0, 0xfc, 0, 0},
	}
	expected := []float32{1, -2.5, 1.0 / (1 << 24), 65504, float32(math.Inf(-1)), 0}
	equal(t, "floats", must(tokenloom.Elements[float32](halves))(t), expected)
}

func TestTensorsThatDoNotFitAreRefused(t *testing.T) {
	if _, err := tokenloom.NewTensor([]int64{1, 2}, 3); err == nil {
		t.Fatal("two elements in a shape of three")
	}
	tensor := must(tokenloom.NewTensor([]int64{1, 2}, 2))(t)
	if _, err := tokenloom.Elements[float32](tensor); err == nil {
		t.Fatal("integers read as floats")
	}
	tensor.Data = tensor.Data[1:]
	if _, err := tokenloom.Elements[int64](tensor); err == nil {
		t.Fatal("bytes are missing")
	}
	if _, err := tokenloom.DenseEdit([][]float32{{1}, {1, 2}}); err == nil {
		t.Fatal("rows of unequal length")
	}
}
