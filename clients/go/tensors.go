package tokenloom

import (
	"encoding/binary"
	"fmt"
	"math"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Element is a type that tensors are made of here.
type Element interface {
	float32 | int32 | int64 | bool
}

// NewTensor is the tensor of that shape with these elements, row by row. The error is for a shape that has another
// number of elements.
func NewTensor[E Element](elements []E, shape ...uint32) (*pb.Tensor, error) {
	if count := countOf(shape); count != uint64(len(elements)) {
		return nil, fmt.Errorf("tokenloom: a tensor of shape %v has %d elements, got %d", shape, count, len(elements))
	}
	data, err := binary.Append(nil, binary.LittleEndian, elements)
	if err != nil {
		return nil, fmt.Errorf("tokenloom: %w", err)
	}
	return &pb.Tensor{Dtype: typeOf[E](), Shape: shape, Data: data}, nil
}

// Elements are a tensor's elements, row by row. Those of a FLOAT16 tensor are read as float32. The error is for a
// tensor of another type, or with another number of bytes than its shape says.
func Elements[E Element](tensor *pb.Tensor) ([]E, error) {
	elements := make([]E, 0)
	if tensor.GetDtype() == pb.DataType_DATA_TYPE_FLOAT16 {
		floats, isFloat := any(&elements).(*[]float32)
		if !isFloat {
			return nil, wrongType[E](tensor)
		}
		if err := checkSize(tensor, 2); err != nil {
			return nil, err
		}
		*floats = fromHalves(tensor.GetData())
		return elements, nil
	}
	if tensor.GetDtype() != typeOf[E]() {
		return nil, wrongType[E](tensor)
	}
	var one E
	size := binary.Size(one)
	if err := checkSize(tensor, size); err != nil {
		return nil, err
	}
	elements = make([]E, len(tensor.GetData())/size)
	if _, err := binary.Decode(tensor.GetData(), binary.LittleEndian, elements); err != nil {
		return nil, fmt.Errorf("tokenloom: %w", err)
	}
	return elements, nil
}

func typeOf[E Element]() pb.DataType {
	var one E
	switch any(one).(type) {
	case float32:
		return pb.DataType_DATA_TYPE_FLOAT32
	case int32:
		return pb.DataType_DATA_TYPE_INT32
	case int64:
		return pb.DataType_DATA_TYPE_INT64
	default:
		return pb.DataType_DATA_TYPE_BOOL
	}
}

func wrongType[E Element](tensor *pb.Tensor) error {
	var one E
	return fmt.Errorf("tokenloom: the elements of a tensor of type %v are not %T", tensor.GetDtype(), one)
}

func checkSize(tensor *pb.Tensor, elementBytes int) error {
	expected := countOf(tensor.GetShape()) * uint64(elementBytes)
	if actual := uint64(len(tensor.GetData())); actual != expected {
		return fmt.Errorf("tokenloom: a tensor of shape %v takes %d bytes, got %d", tensor.GetShape(), expected, actual)
	}
	return nil
}

func countOf(shape []uint32) uint64 {
	count := uint64(1)
	for _, extent := range shape {
		count *= uint64(extent)
	}
	return count
}

// matrix is the float tensor of rows of equal length.
func matrix(rows [][]float32) (*pb.Tensor, error) {
	var elements []float32
	for _, row := range rows {
		if len(row) != len(rows[0]) {
			return nil, fmt.Errorf("tokenloom: rows of equal length are needed, got %d and %d", len(rows[0]), len(row))
		}
		elements = append(elements, row...)
	}
	if len(elements) == 0 {
		return nil, fmt.Errorf("tokenloom: no values")
	}
	return NewTensor(elements, uint32(len(rows)), uint32(len(rows[0])))
}

// fromHalves reads IEEE 754 binary16.
func fromHalves(data []byte) []float32 {
	floats := make([]float32, len(data)/2)
	for i := range floats {
		floats[i] = fromHalf(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return floats
}

func fromHalf(half uint16) float32 {
	sign := uint32(half>>15) << 31
	exponent := uint32(half>>10) & 0x1f
	fraction := uint32(half) & 0x3ff
	switch exponent {
	case 0: // Zero and subnormal numbers: multiples of 2^-24.
		magnitude := float32(fraction) / (1 << 24)
		return math.Float32frombits(sign | math.Float32bits(magnitude))
	case 0x1f: // Infinities and NaN.
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	default: // The exponent's bias is 15 in halves and 127 in floats.
		return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
	}
}
