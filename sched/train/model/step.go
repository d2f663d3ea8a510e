package model

import "fmt"

// Step does one leaf's forward and backward: the halves of half.go, one after the
// other.
func (s *Scratch) Step(in *Leaf, out *LeafGrad) error {
	n := in.Batch.Len()
	if out.Preds != nil && len(out.Preds) != n {
		return fmt.Errorf("model: %d floats for the predictions of %d examples", len(out.Preds), n)
	}
	if err := s.takeBoth(in); err != nil {
		return err
	}
	defer s.drop()
	if err := s.rowsFit(in, out.Rows); err != nil {
		return err
	}
	preds := out.Preds
	if preds == nil {
		preds = s.preds[:min(n, s.max)]
	}
	d, sums := s.upper(in, n)
	grad := DenseGrad{Dense: out.Dense, G: s.g[:n], X0: s.dx0[:len(d.X0)], Preds: preds}
	s.look(d.Z, sums, d.X0)
	if err := s.StepDense(&d, &grad); err != nil {
		return err
	}
	out.LossSum = grad.LossSum
	if n == 0 {
		clear(out.Rows)
		return nil
	}
	s.level.Backward(&s.sparse, grad.G, sums, grad.X0, out.Rows)
	return nil
}

// Predict writes the predictions of one leaf, with the running statistics of
// batch norm and without dropout. Labels, Scale, FirstRow and Epoch are not
// read.
func (s *Scratch) Predict(in *Leaf, preds []float32) error {
	if err := s.takeBoth(in); err != nil {
		return err
	}
	defer s.drop()
	d, sums := s.upper(in, in.Batch.Len())
	s.look(d.Z, sums, d.X0)
	return s.PredictDense(&d, preds)
}

// takeBoth is take, and checks what the upper half reads before anything is computed.
func (s *Scratch) takeBoth(in *Leaf) error {
	if len(in.Dense) != s.model.layout.Total {
		return fmt.Errorf("model: %d dense parameters, the layout has %d", len(in.Dense), s.model.layout.Total)
	}
	return s.take(in)
}

// upper is a leaf's upper half in the scratch's own memory.
func (s *Scratch) upper(in *Leaf, n int) (d DenseLeaf, sums []float32) {
	d = DenseLeaf{Labels: in.Batch.Labels, Z: s.z[:n], X0: s.x0[:n*s.model.Input()], Dense: in.Dense, Scale: in.Scale, FirstRow: in.FirstRow, Epoch: in.Epoch}
	return d, s.sums[:n*s.model.Sums()]
}

// drop forgets the leaf, which belongs to the caller.
func (s *Scratch) drop() {
	x := &s.sparse
	x.Offsets, x.Occ, x.Uniq, x.Field, x.Values, x.Matrix = nil, nil, nil, nil, nil, nil
}

// forward computes the logits from the sparse part's, z. When training, stats are the
// dense gradients, which receive batch norm's statistics.
func (s *Scratch) forward(in *DenseLeaf, z, stats []float32, training bool) {
	m, n := s.model, len(z)
	bias := m.parts.bias.of(in.Dense)[0]
	for i, sparse := range in.Z {
		z[i] = bias + sparse
	}
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

func (m *Model) lastUnits() int { return m.spec.Hidden[len(m.spec.Hidden)-1] }

// backward fills out.Dense and out.X0 from the logits' gradient.
func (s *Scratch) backward(in *DenseLeaf, out *DenseGrad) {
	m, g := s.model, out.G
	var bias float32
	for _, v := range g {
		bias += v
	}
	m.parts.bias.of(out.Dense)[0] = bias
	if m.spec.Deep() {
		s.deepBackward(in, g, out.X0, out.Dense)
	}
	if m.spec.Kind == DCN {
		s.crossBackward(in, g, out.X0, out.Dense)
	}
}
