package model_test

import (
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/train/model"
)

// TestHalvesAreAStep: the sparse half in one scratch and the dense half in another, with
// other leaves between, give what Step gives, to the bit.
func TestHalvesAreAStep(t *testing.T) {
	for _, spec := range specs() {
		t.Run(name(spec), func(t *testing.T) {
			w := newWorld(t, seedtest.Fixed(t, 1), spec, 64)
			m := w.model
			whole, below, above := m.NewScratch(64), m.NewScratch(64), m.NewScratch(64)
			in, other := w.leaf(3, 45, 64), w.leaf(40, 64, 64)
			want := w.gradients(in)
			if err := whole.Step(in, want); err != nil {
				t.Fatal(err)
			}
			n := in.Batch.Len()
			z, sums, x0 := make([]float32, n), make([]float32, n*m.Sums()), make([]float32, n*m.Input())
			if err := below.Look(in, z, sums, x0); err != nil {
				t.Fatal(err)
			}
			if err := below.Step(other, w.gradients(other)); err != nil { // leaves nothing behind that matters
				t.Fatal(err)
			}
			dense := model.DenseLeaf{Labels: in.Batch.Labels, Z: z, X0: x0, Dense: in.Dense, Scale: in.Scale, FirstRow: in.FirstRow, Epoch: in.Epoch}
			up := model.DenseGrad{Dense: make([]float32, m.Layout().Total), G: make([]float32, n), X0: make([]float32, len(x0)), Preds: make([]float32, n)}
			if err := above.StepDense(&dense, &up); err != nil {
				t.Fatal(err)
			}
			rows := make([]float32, len(want.Rows))
			if err := below.Spread(in, up.G, sums, up.X0, rows); err != nil {
				t.Fatal(err)
			}
			if up.LossSum != want.LossSum || !slices.Equal(rows, want.Rows) || !slices.Equal(up.Dense, want.Dense) || !slices.Equal(up.Preds, want.Preds) {
				t.Error("the halves give other bits than Step")
			}
			predicted := make([]float32, n)
			if err := above.PredictDense(&dense, predicted); err != nil {
				t.Fatal(err)
			}
			if err := whole.Predict(in, want.Preds); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(predicted, want.Preds) {
				t.Error("the halves predict other bits than Predict")
			}
			up.X0 = append(up.X0, 0)
			if err := above.StepDense(&dense, &up); err == nil {
				t.Error("gradients of another length than the input were taken")
			}
		})
	}
}
