package safetensors

import (
	"fmt"
	"math"
	"slices"
)

// Type is the type of a tensor's elements, as the format names it.
type Type string

// The types that psrt writes; the reader knows no others.
const (
	U64 Type = "U64"
	F32 Type = "F32"
	F16 Type = "F16"
	I8  Type = "I8"
)

// Bytes is an element's size, 0 for a type that is not known.
func (t Type) Bytes() int64 {
	switch t {
	case U64:
		return 8
	case F32:
		return 4
	case F16:
		return 2
	case I8:
		return 1
	}
	return 0
}

// Tensor describes one.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int64
}

// Bytes is the tensor's size, or an error if that makes no sense.
func (t *Tensor) Bytes() (int64, error) {
	n := t.Type.Bytes()
	if n == 0 {
		return 0, fmt.Errorf("tensor %q has type %q", t.Name, t.Type)
	}
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > math.MaxInt64/d {
			return 0, fmt.Errorf("tensor %q has shape %v", t.Name, t.Shape)
		}
		n *= d
	}
	return n, nil
}

// sortTensors puts large elements first, so that all are aligned.
func sortTensors(ts []Tensor) {
	slices.SortStableFunc(ts, func(a, b Tensor) int { return int(b.Type.Bytes() - a.Type.Bytes()) })
}
