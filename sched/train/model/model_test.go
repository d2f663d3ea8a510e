package model_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/train/model"
	"psrt/sched/train/reference"
)

// near says whether got is want to float32's tolerance, at the scale of the
// sums that it came from.
func near(got float32, want, scale float64) bool {
	return math.Abs(float64(got)-want) <= 2e-5*(math.Abs(want)+scale)
}

func TestStepAgreesWithReference(t *testing.T) {
	for _, s := range specs() {
		t.Run(name(s), func(t *testing.T) {
			w := newWorld(t, seedtest.Fixed(t, 1), s, 50)
			net, err := reference.New(s)
			if err != nil {
				t.Fatal(err)
			}
			p, want := w.params(), reference.NewParams(w.model.Layout())
			in := w.leaf(0, 50, 80)
			out := w.gradients(in)
			if err := w.model.NewScratch(64).Step(in, out); err != nil {
				t.Fatal(err)
			}
			loss := net.Step(reference.Leaf{Examples: w.examples, Scale: 1.0 / 80, FirstRow: in.FirstRow, Epoch: in.Epoch, Training: true}, p, want)
			if math.Abs(out.LossSum-loss) > 1e-5*loss {
				t.Errorf("loss %v, reference %v", out.LossSum, loss)
			}
			compareGradients(t, w, in, out, want)
		})
	}
}

func compareGradients(t *testing.T, w *world, in *model.Leaf, out *model.LeafGrad, want *reference.Params) {
	t.Helper()
	for _, tensor := range w.model.Layout().Tensors {
		ref := want.Dense[tensor.Name]
		scale := largest(ref) + 1.0/80 // a logit gradient: what cancelled in the sums
		for i, v := range ref {
			if got := out.Dense[tensor.Offset+i]; !near(got, v, scale) {
				t.Fatalf("%s[%d]: gradient %v, reference %v", tensor.Name, i, got, v)
			}
		}
	}
	dim := w.model.RowDim()
	for u, key := range in.Uniq {
		ref := want.Rows[uint64(key)]
		scale := largest(ref) + 1.0/80 // a logit gradient: what cancelled in the sums
		for i, v := range ref {
			if got := out.Rows[u*dim+i]; !near(got, v, scale) {
				t.Fatalf("row of key %d[%d]: gradient %v, reference %v", key, i, got, v)
			}
		}
	}
}

func largest(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		most = max(most, math.Abs(v))
	}
	return most
}

func TestPredictAgreesWithReference(t *testing.T) {
	for _, s := range specs() {
		t.Run(name(s), func(t *testing.T) {
			w := newWorld(t, seedtest.Fixed(t, 1), s, 50)
			net, err := reference.New(s)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, 50)
			if err := w.model.NewScratch(50).Predict(w.leaf(0, 50, 1), got); err != nil {
				t.Fatal(err)
			}
			for i, want := range net.Predict(reference.Leaf{Examples: w.examples}, w.params()) {
				if !near(got[i], want, 1) {
					t.Fatalf("example %d: %v, reference %v", i, got[i], want)
				}
			}
		})
	}
}

// Step's predictions, without dropout and batch norm, are Predict's to the bit.
func TestStepPredictsAsPredict(t *testing.T) {
	for _, s := range specs() {
		if s.Dropout > 0 {
			continue
		}
		w := newWorld(t, seedtest.Fixed(t, 1), s, 33)
		in, got := w.leaf(0, 33, 33), make([]float32, 33)
		out, scratch := w.gradients(in), w.model.NewScratch(40)
		if err := scratch.Step(in, out); err != nil {
			t.Fatal(err)
		}
		if err := scratch.Predict(in, got); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, out.Preds) {
			t.Errorf("%s: step predicts %v, predict %v", name(s), out.Preds[:3], got[:3])
		}
	}
}

// The bits depend on the leaf alone: not on the scratch, what it did before,
// or where the memory lies.
func TestStepRepeatsToTheBit(t *testing.T) {
	for _, s := range specs() {
		t.Run(name(s), func(t *testing.T) {
			w := newWorld(t, seedtest.Fixed(t, 1), s, 64)
			used, fresh := w.model.NewScratch(64), w.model.NewScratch(17)
			for _, cut := range [][2]int{{0, 64}, {10, 27}} {
				if err := used.Step(w.leaf(cut[0], cut[1], 64), w.gradients(w.leaf(cut[0], cut[1], 64))); err != nil {
					t.Fatal(err)
				}
			}
			in := w.leaf(40, 57, 64)
			a, b := w.gradients(in), w.gradients(in)
			if err := used.Step(in, a); err != nil {
				t.Fatal(err)
			}
			moved := w.leaf(40, 57, 64)
			moved.Matrix = append(make([]float32, 3), w.matrix...)[3:]
			moved.Dense = append(make([]float32, 5), w.dense...)[5:]
			if err := fresh.Step(moved, b); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a.Rows, b.Rows) || !slices.Equal(a.Dense, b.Dense) || !slices.Equal(a.Preds, b.Preds) || a.LossSum != b.LossSum {
				t.Fatal("the same leaf gave other bits")
			}
		})
	}
}

func TestDropoutChangesWithEpochAndRow(t *testing.T) {
	s := model.Spec{Kind: model.WideDeep, Dim: 4, Fields: worldFields, Hidden: []int{30}, Task: model.CTR, Dropout: 0.5}
	w := newWorld(t, seedtest.Fixed(t, 1), s, 20)
	step := func(change func(in *model.Leaf)) []float32 {
		in := w.leaf(0, 20, 20)
		change(in)
		out := w.gradients(in)
		if err := w.model.NewScratch(20).Step(in, out); err != nil {
			t.Fatal(err)
		}
		return out.Dense
	}
	base := step(func(*model.Leaf) {})
	for what, change := range map[string]func(in *model.Leaf){
		"epoch":     func(in *model.Leaf) { in.Epoch++ },
		"first row": func(in *model.Leaf) { in.FirstRow++ },
	} {
		if slices.Equal(base, step(change)) {
			t.Errorf("another %s gives the same masks", what)
		}
	}
}

func TestEmptyLeafIsZero(t *testing.T) {
	for _, s := range specs() {
		w := newWorld(t, seedtest.Fixed(t, 1), s, 1)
		in := w.leaf(0, 0, 10)
		in.Uniq = []int32{3}
		out := w.gradients(in)
		out.LossSum = 7
		if err := w.model.NewScratch(4).Step(in, out); err != nil {
			t.Fatal(err)
		}
		for _, v := range append(out.Rows, out.Dense...) {
			if v != 0 || out.LossSum != 0 {
				t.Fatalf("%s: an empty leaf has gradient %v, loss %v", name(s), v, out.LossSum)
			}
		}
		if err := w.model.NewScratch(4).Predict(in, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A leaf of one example has no variance: batch norm must stay finite.
func TestSingleExampleStaysFinite(t *testing.T) {
	for _, s := range specs() {
		w := newWorld(t, seedtest.Fixed(t, 1), s, 1)
		in := w.leaf(0, 1, 1)
		out := w.gradients(in)
		if err := w.model.NewScratch(4).Step(in, out); err != nil {
			t.Fatal(err)
		}
		for _, v := range append(out.Rows, out.Dense...) {
			if v-v != 0 {
				t.Fatalf("%s: gradient %v", name(s), v)
			}
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, s := range specs() {
		w := newWorld(t, seedtest.Fixed(t, 1), s, 32)
		in := w.leaf(0, 32, 32)
		out, scratch := w.gradients(in), w.model.NewScratch(32)
		n := testing.AllocsPerRun(5, func() {
			if err := scratch.Step(in, out); err != nil {
				t.Fatal(err)
			}
			if err := scratch.Predict(in, out.Preds); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations a leaf", name(s), n)
		}
	}
}

func TestBadLeavesAreRefused(t *testing.T) {
	s := model.Spec{Kind: model.DeepFM, Dim: 4, Fields: worldFields, Hidden: []int{5}, Task: model.CTR}
	for what, spoil := range map[string]func(in *model.Leaf, out *model.LeafGrad){
		"too many examples": func(in *model.Leaf, _ *model.LeafGrad) { in.Batch.Labels = make([]float32, 99) },
		"too few labels":    func(in *model.Leaf, _ *model.LeafGrad) { in.Batch.Labels = in.Batch.Labels[1:] },
		"row out of matrix": func(in *model.Leaf, _ *model.LeafGrad) { in.Uniq[0] = worldKeys },
		"number out of row": func(in *model.Leaf, _ *model.LeafGrad) { in.Occ[0] = -1 },
		"unknown field":     func(in *model.Leaf, _ *model.LeafGrad) { in.Batch.Fields[0] = worldFields },
		"no fields":         func(in *model.Leaf, _ *model.LeafGrad) { in.Batch.Fields = nil },
		"short dense":       func(in *model.Leaf, _ *model.LeafGrad) { in.Dense = in.Dense[1:] },
		"short rows":        func(_ *model.Leaf, out *model.LeafGrad) { out.Rows = out.Rows[1:] },
		"short gradients":   func(_ *model.Leaf, out *model.LeafGrad) { out.Dense = out.Dense[1:] },
		"short predictions": func(_ *model.Leaf, out *model.LeafGrad) { out.Preds = out.Preds[1:] },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, seedtest.Fixed(t, 1), s, 20)
			in := w.leaf(0, 20, 20)
			out := w.gradients(in)
			spoil(in, out)
			if err := w.model.NewScratch(20).Step(in, out); err == nil || !strings.HasPrefix(err.Error(), "model: ") {
				t.Fatalf("got %v", err)
			}
		})
	}
}
