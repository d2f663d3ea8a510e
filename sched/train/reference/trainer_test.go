package reference

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/dataset"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

func TestParseLibFFM(t *testing.T) {
	got, err := ParseLibFFM(strings.NewReader("1 0:18446744073709551615:1 6:2:0.5\n\n0 1:3:-2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Label != 1 || got[0].Features[0] != (Feature{0, math.MaxUint64, 1}) || got[1].Features[0] != (Feature{1, 3, -2}) {
		t.Fatalf("got %v", got)
	}
	for _, bad := range []string{"x 0:1:1", "1 0:1", "1 0:-1:1", "1 a:1:1", "1 0:1:y"} {
		if _, err := ParseLibFFM(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestFromBatch(t *testing.T) {
	got := FromBatch(&dataset.Batch{Labels: []float32{1, 0}, Offsets: []int32{0, 2, 3}, Keys: []uint64{7, 8, 9}, Fields: []uint16{0, 1, 2}, Values: []float32{1, .5, -2}})
	want := []Example{{1, []Feature{{0, 7, 1}, {1, 8, .5}}}, {0, []Feature{{2, 9, -2}}}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// Two steps of each rule, worked out by hand.
func TestOptimizersByHand(t *testing.T) {
	root := math.Sqrt
	for _, c := range []struct {
		name   string
		o      table.Optimizer
		w      []float64
		g1, g2 []float64
		want   []float64
	}{
		{"sgd", table.Optimizer{Kind: table.SGD, LR: 0.5}, []float64{1}, []float64{2}, []float64{-1}, []float64{0.5}},
		{"sgd l2", table.Optimizer{Kind: table.SGD, LR: 0.5, L2: 0.5}, []float64{1}, []float64{0}, []float64{0}, []float64{0.5625}},
		{"adagrad", table.Optimizer{Kind: table.AdaGrad, LR: 0.5, Eps: 1e-30}, []float64{1}, []float64{3}, []float64{4}, []float64{1 - 0.5 - 0.5*4/5}},
		{"rowadagrad", table.Optimizer{Kind: table.RowAdaGrad, LR: 0.5, Eps: 1e-30}, []float64{0, 0}, []float64{1, 0}, []float64{0, 1},
			[]float64{-0.5 / root(0.5), -0.5}},
		{"adam", table.Optimizer{Kind: table.Adam, LR: 0.5, Beta1: 0.5, Beta2: 0.5, Eps: 1e-30}, []float64{0}, []float64{2}, []float64{0},
			[]float64{-0.5 - 0.5*(0.5/0.75)/root(1/0.75)}},
		{"ftrl inside l1", table.Optimizer{Kind: table.FTRL, LR: 0.5, L1: 10, Beta: 1}, []float64{0}, []float64{2}, []float64{2}, []float64{0}},
		{"ftrl", table.Optimizer{Kind: table.FTRL, LR: 0.5, L1: 0.5, L2: 2, Beta: 1}, []float64{0}, []float64{3}, []float64{0},
			[]float64{(0.5 - 3) / ((1+3)/0.5 + 2)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := newOptimizer(c.o)
			if err != nil {
				t.Fatal(err)
			}
			w, s := append([]float64(nil), c.w...), o.start(len(c.w))
			o.update(s, w, c.g1)
			o.update(s, w, c.g2)
			for i := range w {
				if math.Abs(w[i]-c.want[i]) > 1e-7 {
					t.Errorf("weight %d is %v, want %v", i, w[i], c.want[i])
				}
			}
		})
	}
}

// Every kind learns a small set by heart, with every optimizer that suits.
func TestTrainerLearns(t *testing.T) {
	r := seedtest.Fixed(t, 1)
	for _, kind := range model.Kinds() {
		for _, o := range []table.Optimizer{{Kind: table.Adam, LR: 0.05}, {Kind: table.AdaGrad, LR: 0.3}, {Kind: table.FTRL, LR: 0.3}} {
			spec := model.Spec{Kind: kind, Dim: 4, Fields: 3, Hidden: []int{8}, CrossLayers: 1, Task: model.CTR, Seed: 5}
			_, data, start := world(t, r, spec, 40)
			for i := range data {
				data[i].Label = separable(data[i])
			}
			dense := o
			if o.Kind == table.FTRL { // FTRL forgets the starting weights that layers need
				dense = table.Optimizer{Kind: table.AdaGrad, LR: 0.1}
			}
			trainer, err := NewTrainer(Config{Spec: spec, Sparse: o, Dense: dense, EMARate: 0.1, Batch: 16, Leaf: 8,
				Birth: func(key uint64) []float32 {
					row := make([]float32, len(start.Rows[key]))
					for i, v := range start.Rows[key] {
						row[i] = float32(v) / 10
					}
					return row
				}})
			if err != nil {
				t.Fatal(err)
			}
			first, last := trainer.Epoch(data, 0), 0.0
			for epoch := 1; epoch < 40; epoch++ {
				last = trainer.Epoch(data, epoch)
			}
			if !(last < 0.7*first) {
				t.Errorf("%s with %s: loss %v after %v", kind, o.Kind, last, first)
			}
		}
	}
}

// separable labels an example so that even a linear model can tell.
func separable(e Example) float64 {
	sum := 0.0
	for _, f := range e.Features {
		sum += f.Value * (float64(f.Key) - 4)
	}
	if sum > 0 {
		return 1
	}
	return 0
}
