package model

// Rules by which a server folds pushed values into a dense tensor.
const (
	RuleGrad = "grad" // what is pushed is a gradient, for the dense optimizer
	RuleEMA  = "ema"  // what is pushed is a new observation of a running mean
)

// Initialisers of a dense tensor.
const (
	InitXavier = "xavier" // uniform in +-sqrt(6/(Rows+Cols))
	InitConst  = "const"  // every element Value
)

// Tensor is one named part of the dense parameters, row-major.
type Tensor struct {
	Name       string
	Rows, Cols int
	Offset     int // floats from the start of the dense parameters
	Init       string
	Value      float32 // of InitConst
	Rule       string
}

// Len is the number of floats in the tensor.
func (t Tensor) Len() int { return t.Rows * t.Cols }

// DenseLayout is the order of a model's dense parameters: the tensors follow
// each other without gaps.
type DenseLayout struct {
	Tensors []Tensor
	Total   int // floats
}

// add appends a tensor and returns its place.
func (l *DenseLayout) add(t Tensor) span {
	t.Offset = l.Total
	l.Tensors = append(l.Tensors, t)
	l.Total += t.Len()
	return span{t.Offset, t.Len()}
}

// span is a tensor's place among the dense parameters.
type span struct{ offset, length int }

func (s span) of(dense []float32) []float32 {
	return dense[s.offset : s.offset+s.length : s.offset+s.length]
}
