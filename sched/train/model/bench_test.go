package model_test

import (
	"math"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/train/model"
	"psrt/sched/train/reference"
)

// BenchmarkStep is forward and backward of one leaf of 512 examples shaped
// like the movie ratings: 7 fields, 8 occurrences, a few hundred popular ids.
func BenchmarkStep(b *testing.B) {
	for _, s := range []model.Spec{
		{Kind: model.LR},
		{Kind: model.FM},
		{Kind: model.WideDeep, Hidden: []int{256, 256, 256}, Dropout: .2},
		{Kind: model.DeepFM, Hidden: []int{256, 256, 256}, Dropout: .1},
		{Kind: model.DeepFM, Hidden: []int{256, 256, 256}, Dropout: .1, BatchNorm: true},
		{Kind: model.DCN, Hidden: []int{256, 256}, CrossLayers: 2, Dropout: .2},
	} {
		s.Dim, s.Fields, s.Task = 16, 7, model.CTR
		b.Run(name(s), func(b *testing.B) {
			r := seedtest.Fixed(b, 1)
			m, err := model.New(s)
			if err != nil {
				b.Fatal(err)
			}
			const n, keys = 512, 4000
			w := &world{model: m, matrix: make([]float32, keys*m.RowDim()), dense: make([]float32, m.Layout().Total), examples: make([]reference.Example, n)}
			for i := range w.matrix {
				w.matrix[i] = float32(r.NormFloat64() * .1)
			}
			if err := m.InitDense(w.dense); err != nil {
				b.Fatal(err)
			}
			for i := range w.examples {
				w.examples[i].Label = float64(r.IntN(2))
				for f := range 8 {
					key := uint64(math.Pow(keys, r.Float64())) - 1 // about Zipf's
					w.examples[i].Features = append(w.examples[i].Features, reference.Feature{Field: min(f, 6), Key: key, Value: 1})
				}
			}
			in := w.leaf(0, n, n)
			out, scratch := w.gradients(in), m.NewScratch(n)
			b.ReportAllocs()
			for b.Loop() {
				if err := scratch.Step(in, out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e3, "kex/s")
		})
	}
}
