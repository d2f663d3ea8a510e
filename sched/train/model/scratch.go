package model

import (
	"fmt"

	"psrt/csrc/nn"
)

// Scratch is the memory one goroutine needs to step a Model over leaves of up
// to a given number of examples. All of it is made by NewScratch; a Step
// allocates nothing.
type Scratch struct {
	model  *Model
	max    int
	level  nn.Level
	sparse nn.Sparse

	z, g, preds []float32 // per example: the sparse part of the logit, the gradient, prediction
	logits      []float32
	sums        []float32 // FM's sums
	x0, dx0     []float32 // pooled embeddings and their gradient
	layers      []layerScratch
	cross       []crossScratch
	d, other    []float32 // activation gradients, on the way down
	affine      []float32 // batch norm of prediction as one scale and shift
}

type layerScratch struct {
	a          []float32 // output of the layer
	normalized []float32 // of batch norm: its input, normalized
	inverse    []float32 // of batch norm: 1 / deviation
}

type crossScratch struct {
	u   []float32 // x W + b
	out []float32
}

// NewScratch makes the memory for leaves of up to maxLeafExamples, at least 1.
func (m *Model) NewScratch(maxLeafExamples int) *Scratch {
	n := max(maxLeafExamples, 1)
	s := &Scratch{model: m, max: n, level: nn.Best(),
		z: make([]float32, n), g: make([]float32, n), preds: make([]float32, n), logits: make([]float32, n)}
	s.sparse = nn.Sparse{Parts: m.sparseParts(), RowDim: m.RowDim(), Dim: m.embedding(), Fields: m.spec.Fields}
	s.sums = make([]float32, n*m.Sums())
	if m.spec.Deep() {
		s.makeDeep(n)
	}
	return s
}

func (s *Scratch) makeDeep(n int) {
	m := s.model
	s.x0, s.dx0 = make([]float32, n*m.input()), make([]float32, n*m.input())
	widest := m.input()
	for _, p := range m.parts.deep {
		l := layerScratch{a: make([]float32, n*p.out)}
		if m.spec.BatchNorm {
			l.normalized, l.inverse = make([]float32, n*p.out), make([]float32, p.out)
		}
		s.layers = append(s.layers, l)
		widest = max(widest, p.out)
	}
	for range m.parts.cross {
		s.cross = append(s.cross, crossScratch{u: make([]float32, n*m.input()), out: make([]float32, n*m.input())})
	}
	s.d, s.other = make([]float32, n*widest), make([]float32, n*widest)
	s.affine = make([]float32, 2*widest)
}

// sparseParts is which sparse sums the kind makes.
func (m *Model) sparseParts() nn.Parts {
	switch m.spec.Kind {
	case FM:
		return nn.Linear | nn.FM
	case WideDeep:
		return nn.Linear | nn.Pool
	case DeepFM:
		return nn.Linear | nn.FM | nn.Pool
	case DCN:
		return nn.Pool
	default:
		return nn.Linear
	}
}

// take points the sparse pass at a leaf and checks everything in it.
func (s *Scratch) take(in *Leaf) error {
	n := in.Batch.Len()
	switch {
	case n > s.max:
		return fmt.Errorf("model: leaf of %d examples, the scratch holds %d", n, s.max)
	case len(in.Batch.Offsets) != n+1:
		return fmt.Errorf("model: %d offsets for %d examples, must be %d", len(in.Batch.Offsets), n, n+1)
	}
	x := &s.sparse
	x.Offsets, x.Occ, x.Uniq = in.Batch.Offsets, in.Occ, in.Uniq
	x.Field, x.Values, x.Matrix = in.Batch.Fields, in.Batch.Values, in.Matrix
	if err := x.Check(); err != nil {
		return fmt.Errorf("model: leaf at row %d: %w", in.FirstRow, err)
	}
	return nil
}
