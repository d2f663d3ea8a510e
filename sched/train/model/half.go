package model

import "fmt"

// A step has two halves, and they may be computed by different processes: the sparse
// one looks at rows and ends in Z and X0 of each example; the dense one begins there,
// and gives their gradients back. What lies between the two is all that one has to tell
// the other.

// Input is the floats of X0 that an example has: 0 where the kind has no layers.
func (m *Model) Input() int {
	if !m.spec.Deep() {
		return 0
	}
	return m.input()
}

// Sums is the floats that the sparse half keeps of an example between Look and Spread.
func (m *Model) Sums() int {
	if m.spec.Kind == FM || m.spec.Kind == DeepFM {
		return m.spec.Dim
	}
	return 0
}

// DenseLeaf is what the dense half reads of a leaf.
type DenseLeaf struct {
	Labels   []float32
	Z        []float32 // the sparse part of each logit
	X0       []float32 // Input of each example
	Dense    []float32 // all dense parameters, in DenseLayout order
	Scale    float32   // as in Leaf, and so are the others
	FirstRow uint64
	Epoch    int
}

// DenseGrad receives the dense half's result; every element is written.
type DenseGrad struct {
	Dense   []float32 // DenseLayout.Total
	G       []float32 // d loss / d logit of each example, times Scale
	X0      []float32 // the gradient of DenseLeaf.X0
	Preds   []float32 // one an example
	LossSum float64
}

// Look is the sparse half's forward: it fills z, sums and x0. The leaf's dense
// parameters are not read.
func (s *Scratch) Look(in *Leaf, z, sums, x0 []float32) error {
	if err := s.take(in); err != nil {
		return err
	}
	defer s.drop()
	if err := s.fits(in.Batch.Len(), z, x0); err != nil {
		return err
	}
	s.look(z, sums, x0)
	return nil
}

// Spread is its backward: from the gradients of what Look gave to those of the rows.
func (s *Scratch) Spread(in *Leaf, g, sums, dx0, rows []float32) error {
	if err := s.take(in); err != nil {
		return err
	}
	defer s.drop()
	if err := s.fits(in.Batch.Len(), g, dx0); err != nil {
		return err
	}
	if err := s.rowsFit(in, rows); err != nil {
		return err
	}
	s.level.Backward(&s.sparse, g, sums, dx0, rows)
	return nil
}

// StepDense is the dense half of a Step.
func (s *Scratch) StepDense(in *DenseLeaf, out *DenseGrad) error {
	n := len(in.Z)
	if err := s.denseFits(in, out.Preds); err != nil {
		return err
	}
	if err := s.fits(n, out.G, out.X0); err != nil {
		return err
	}
	if len(out.Dense) != s.model.layout.Total {
		return fmt.Errorf("model: %d floats for the dense gradients, must be %d", len(out.Dense), s.model.layout.Total)
	}
	out.LossSum = 0
	if n == 0 {
		clear(out.Dense)
		return nil
	}
	z := s.logits[:n]
	s.forward(in, z, out.Dense, true)
	if s.model.spec.Task == Regression {
		out.LossSum = s.level.SquareLoss(in.Scale, z, in.Labels, out.G)
		copy(out.Preds, z)
	} else {
		out.LossSum = s.level.LogLoss(in.Scale, z, in.Labels, out.G, out.Preds)
	}
	s.backward(in, out)
	return nil
}

// PredictDense is the dense half of Predict.
func (s *Scratch) PredictDense(in *DenseLeaf, preds []float32) error {
	if err := s.denseFits(in, preds); err != nil {
		return err
	}
	z := s.logits[:len(preds)]
	if len(z) == 0 {
		return nil
	}
	s.forward(in, z, nil, false)
	if s.model.spec.Task == Regression {
		copy(preds, z)
	} else {
		s.level.Sigmoid(z, preds)
	}
	return nil
}

func (s *Scratch) look(z, sums, x0 []float32) { s.level.Forward(&s.sparse, 0, z, sums, x0) }

// fits checks the lengths of what lies between the halves.
func (s *Scratch) fits(n int, z, x0 []float32) error {
	switch {
	case n > s.max:
		return fmt.Errorf("model: leaf of %d examples, the scratch holds %d", n, s.max)
	case len(z) != n || len(x0) != n*s.model.Input():
		return fmt.Errorf("model: %d and %d floats between the halves of %d examples, must be %d and %d", len(z), len(x0), n, n, n*s.model.Input())
	}
	return nil
}

func (s *Scratch) denseFits(in *DenseLeaf, preds []float32) error {
	n := len(in.Z)
	switch {
	case len(in.Dense) != s.model.layout.Total:
		return fmt.Errorf("model: %d dense parameters, the layout has %d", len(in.Dense), s.model.layout.Total)
	case len(in.Labels) != n || len(preds) != n:
		return fmt.Errorf("model: %d labels and %d floats for the predictions of %d examples", len(in.Labels), len(preds), n)
	}
	return s.fits(n, in.Z, in.X0)
}

func (s *Scratch) rowsFit(in *Leaf, rows []float32) error {
	if want := len(in.Uniq) * s.sparse.RowDim; len(rows) != want {
		return fmt.Errorf("model: %d floats for the gradients of %d rows of %d, must be %d", len(rows), len(in.Uniq), s.sparse.RowDim, want)
	}
	return nil
}
