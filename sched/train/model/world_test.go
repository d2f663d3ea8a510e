package model_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"psrt/sched/dataset"
	"psrt/sched/train/model"
	"psrt/sched/train/reference"
)

const worldFields, worldKeys = 4, 60

// specs is every kind with every option that changes the arithmetic.
func specs() []model.Spec {
	var out []model.Spec
	for _, kind := range model.Kinds() {
		for _, task := range []string{model.CTR, model.Regression} {
			s := model.Spec{Kind: kind, Dim: 8, Fields: worldFields, Hidden: []int{20, 17}, CrossLayers: 2, Task: task, Seed: 3, MeanLabel: 0.3}
			out = append(out, s)
			if s.Deep() {
				s.Dropout = 0.4
				out = append(out, s)
				s.BatchNorm = true
				out = append(out, s)
			}
		}
	}
	return out
}

func name(s model.Spec) string {
	return fmt.Sprintf("%s/%s/drop%v/norm%v", s.Kind, s.Task, s.Dropout, s.BatchNorm)
}

// world is a model with values, and examples both as the trainer's batch and
// as the reference's.
type world struct {
	model    *model.Model
	matrix   []float32 // row = key
	dense    []float32
	examples []reference.Example
}

func newWorld(t testing.TB, r *rand.Rand, s model.Spec, examples int) *world {
	m, err := model.New(s)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{model: m, matrix: make([]float32, worldKeys*m.RowDim()), dense: make([]float32, m.Layout().Total)}
	for i := range w.matrix {
		w.matrix[i] = float32(r.NormFloat64() * 0.3)
	}
	if err := m.InitDense(w.dense); err != nil {
		t.Fatal(err)
	}
	for i := range w.dense {
		w.dense[i] += float32(r.Float64() * 0.2) // positive: variances too
	}
	w.examples = make([]reference.Example, examples)
	for i := range w.examples {
		w.examples[i].Label = float64(r.IntN(2))
		for range r.IntN(9) {
			w.examples[i].Features = append(w.examples[i].Features, reference.Feature{
				Field: r.IntN(worldFields), Key: r.Uint64N(worldKeys), Value: float64(float32(r.NormFloat64()))})
		}
	}
	return w
}

// leaf cuts examples first to last-1, with its own numbering of unique rows.
func (w *world) leaf(first, last int, of int) *model.Leaf {
	b := &dataset.Batch{}
	b.Reset()
	in := &model.Leaf{Batch: b, Matrix: w.matrix, Dense: w.dense, Scale: 1 / float32(of), FirstRow: 1000 + uint64(first), Epoch: 2}
	number := map[uint64]int32{}
	for _, e := range w.examples[first:last] {
		b.Labels = append(b.Labels, float32(e.Label))
		for _, f := range e.Features {
			if _, met := number[f.Key]; !met {
				number[f.Key] = int32(len(in.Uniq))
				in.Uniq = append(in.Uniq, int32(f.Key))
			}
			in.Occ = append(in.Occ, number[f.Key])
			b.Keys = append(b.Keys, f.Key)
			b.Fields = append(b.Fields, uint16(f.Field))
			b.Values = append(b.Values, float32(f.Value))
		}
		b.Offsets = append(b.Offsets, int32(len(b.Keys)))
	}
	return in
}

// gradients makes dirty memory for a leaf's result: a step must not rely on zeros.
func (w *world) gradients(in *model.Leaf) *model.LeafGrad {
	out := &model.LeafGrad{Rows: make([]float32, len(in.Uniq)*w.model.RowDim()), Dense: make([]float32, w.model.Layout().Total), Preds: make([]float32, in.Batch.Len())}
	for _, s := range [][]float32{out.Rows, out.Dense, out.Preds} {
		for i := range s {
			s[i] = 1e9
		}
	}
	return out
}

// params is the same values for the reference.
func (w *world) params() *reference.Params {
	p := reference.NewParams(w.model.Layout())
	for _, t := range w.model.Layout().Tensors {
		for i := range p.Dense[t.Name] {
			p.Dense[t.Name][i] = float64(w.dense[t.Offset+i])
		}
	}
	dim := w.model.RowDim()
	for key := range uint64(worldKeys) {
		row := make([]float64, dim)
		for i := range row {
			row[i] = float64(w.matrix[int(key)*dim+i])
		}
		p.Rows[key] = row
	}
	return p
}
