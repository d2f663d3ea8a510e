package model

import (
	"fmt"

	"psrt/csrc/nn"
)

// Step does one leaf's forward and backward.
func (s *Scratch) Step(in *Leaf, out *LeafGrad) error {
	if err := s.take(in); err != nil {
		return err
	}
	defer s.drop()
	n := in.Batch.Len()
	switch {
	case len(out.Rows) != len(in.Uniq)*s.sparse.RowDim:
		return fmt.Errorf("model: %d floats for the gradients of %d rows of %d, must be %d",
			len(out.Rows), len(in.Uniq), s.sparse.RowDim, len(in.Uniq)*s.sparse.RowDim)
	case len(out.Dense) != s.model.layout.Total:
		return fmt.Errorf("model: %d floats for the dense gradients, must be %d", len(out.Dense), s.model.layout.Total)
	case out.Preds != nil && len(out.Preds) != n:
		return fmt.Errorf("model: %d floats for the predictions of %d examples", len(out.Preds), n)
	}
	if n == 0 {
		clear(out.Rows)
		clear(out.Dense)
		out.LossSum = 0
		return nil
	}
	z, g := s.z[:n], s.g[:n]
	s.forward(in, z, out.Dense, true)
	preds := out.Preds
	if s.model.spec.Task == Regression {
		out.LossSum = s.level.SquareLoss(in.Scale, z, in.Batch.Labels, g)
		copy(preds, z)
	} else {
		if preds == nil {
			preds = s.preds[:n]
		}
		out.LossSum = s.level.LogLoss(in.Scale, z, in.Batch.Labels, g, preds)
	}
	s.backward(in, g, out)
	return nil
}

// Predict writes the predictions of one leaf, with the running statistics of
// batch norm and without dropout. Labels, Scale, FirstRow and Epoch are not
// read.
func (s *Scratch) Predict(in *Leaf, preds []float32) error {
	if err := s.take(in); err != nil {
		return err
	}
	defer s.drop()
	if len(preds) != in.Batch.Len() {
		return fmt.Errorf("model: %d floats for the predictions of %d examples", len(preds), in.Batch.Len())
	}
	if len(preds) == 0 {
		return nil
	}
	z := s.z[:len(preds)]
	s.forward(in, z, nil, false)
	if s.model.spec.Task == Regression {
		copy(preds, z)
	} else {
		s.level.Sigmoid(z, preds)
	}
	return nil
}

// drop forgets the leaf, which belongs to the caller.
func (s *Scratch) drop() {
	x := &s.sparse
	x.Offsets, x.Occ, x.Uniq, x.Field, x.Values, x.Matrix = nil, nil, nil, nil, nil, nil
}

// forward computes the logits. When training, stats are the dense gradients,
// which receive batch norm's statistics.
func (s *Scratch) forward(in *Leaf, z, stats []float32, training bool) {
	m, n := s.model, len(z)
	sums, x0 := s.sums[:n*s.dimOf(nn.FM)], s.x0[:n*s.dimOf(nn.Pool)]
	s.level.Forward(&s.sparse, m.parts.bias.of(in.Dense)[0], z, sums, x0)
	if !m.spec.Deep() {
		return
	}
	s.deepForward(in, n, stats, training)
	s.level.Output(s.layers[len(s.layers)-1].a[:n*m.lastUnits()], m.parts.out.of(in.Dense), z)
	if m.spec.Kind == DCN {
		s.crossForward(in, n)
		s.level.Output(s.cross[len(s.cross)-1].out[:n*m.input()], m.parts.tail.of(in.Dense), z)
	}
}

// dimOf is the floats an example has in the operand of a sparse part.
func (s *Scratch) dimOf(part nn.Parts) int {
	switch {
	case s.sparse.Parts&part == 0:
		return 0
	case part == nn.FM:
		return s.sparse.Dim
	default:
		return s.sparse.Dim * s.sparse.Fields
	}
}

func (m *Model) lastUnits() int { return m.spec.Hidden[len(m.spec.Hidden)-1] }

// backward fills out.Rows and out.Dense from the logits' gradient.
func (s *Scratch) backward(in *Leaf, g []float32, out *LeafGrad) {
	m, n := s.model, len(g)
	var bias float32
	for _, v := range g {
		bias += v
	}
	m.parts.bias.of(out.Dense)[0] = bias
	sums, dx0 := s.sums[:n*s.dimOf(nn.FM)], s.dx0[:n*s.dimOf(nn.Pool)]
	if m.spec.Deep() {
		s.deepBackward(in, g, dx0, out.Dense)
	}
	if m.spec.Kind == DCN {
		s.crossBackward(in, g, dx0, out.Dense)
	}
	s.level.Backward(&s.sparse, g, sums, dx0, out.Rows)
}
