package model_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/train/metric"
	"psrt/sched/train/model"
	"psrt/sched/train/reference"
	"psrt/tiers/table"
)

// Training, not only a step, stays with the float64 trainer: same leaves, same
// masks, same start, lazy Adam in both.
func TestTrainingFollowsReference(t *testing.T) {
	for _, s := range specs() {
		if s.BatchNorm { // its running averages belong to the servers
			continue
		}
		t.Run(name(s), func(t *testing.T) {
			examples := newWorld(t, seedtest.Fixed(t, 1), s, 90).examples
			l := newLearner(t, s, examples, worldKeys, 32, 8)
			adam := table.Optimizer{Kind: table.Adam, LR: .005}
			dim := l.model.RowDim()
			birth := append([]float32(nil), l.matrix...)
			trainer, err := reference.NewTrainer(reference.Config{Spec: s, Sparse: adam, Dense: adam, Batch: 32, Leaf: 8,
				Birth: func(key uint64) []float32 { return birth[int(key)*dim:][:dim] }})
			if err != nil {
				t.Fatal(err)
			}
			for epoch := range 8 {
				l.epoch(t, epoch)
				trainer.Epoch(l.examples, epoch) // in the learner's order
			}
			got := make([]float32, len(examples))
			w := &world{model: l.model, matrix: l.matrix, dense: l.world.dense, examples: examples}
			if err := l.model.NewScratch(len(examples)).Predict(w.leaf(0, len(examples), 1), got); err != nil {
				t.Fatal(err)
			}
			for i, want := range trainer.Predict(examples) {
				if math.Abs(float64(got[i])-want) > 1e-3 {
					t.Fatalf("example %d: %v after 24 steps, reference %v", i, got[i], want)
				}
			}
		})
	}
}

// learner is the smallest trainer: rows in one array, lazy Adam.
type learner struct {
	*world
	batch, leafSize int
	shuffle         *rand.Rand
	scratch         *model.Scratch
	rows, dense     moments
	sums, denseBy   []float32 // gradients of a batch
}

type moments struct {
	m, v []float32
	step []int // of each row
}

func newLearner(t *testing.T, s model.Spec, train []reference.Example, keys, batch, leaf int) *learner {
	m, err := model.New(s)
	if err != nil {
		t.Fatal(err)
	}
	n, dense := keys*m.RowDim(), m.Layout().Total
	l := &learner{world: &world{model: m, matrix: make([]float32, n), dense: make([]float32, dense), examples: append([]reference.Example(nil), train...)},
		batch: batch, leafSize: leaf, shuffle: seedtest.Fixed(t, 1), scratch: m.NewScratch(leaf),
		rows:  moments{make([]float32, n), make([]float32, n), make([]int, keys)},
		dense: moments{make([]float32, dense), make([]float32, dense), make([]int, 1)},
		sums:  make([]float32, n), denseBy: make([]float32, dense)}
	if err := m.InitDense(l.world.dense); err != nil {
		t.Fatal(err)
	}
	init := m.RowInit()
	for i := range l.matrix {
		if i%m.RowDim() >= init.ZeroPrefix {
			l.matrix[i] = float32(l.shuffle.NormFloat64()) * init.Scale
		}
	}
	return l
}

func (l *learner) epoch(t *testing.T, epoch int) {
	t.Helper()
	l.shuffle.Shuffle(len(l.examples), func(i, j int) { l.examples[i], l.examples[j] = l.examples[j], l.examples[i] })
	dim := l.model.RowDim()
	for first := 0; first < len(l.examples); first += l.batch {
		last := min(first+l.batch, len(l.examples))
		clear(l.denseBy)
		met := map[int32]bool{}
		for at := first; at < last; at += l.leafSize {
			in := l.leaf(at, min(at+l.leafSize, last), last-first)
			in.Epoch, in.FirstRow = epoch, uint64(at)
			out := l.gradients(in)
			if err := l.scratch.Step(in, out); err != nil {
				t.Fatal(err)
			}
			for u, row := range in.Uniq {
				met[row] = true
				add(l.sums[int(row)*dim:][:dim], out.Rows[u*dim:])
			}
			add(l.denseBy, out.Dense)
		}
		for row := range met {
			from, to := int(row)*dim, int(row+1)*dim
			l.rows.adam(l.matrix[from:to], l.sums[from:to], from, int(row))
			clear(l.sums[from:to])
		}
		l.dense.adam(l.world.dense, l.denseBy, 0, 0)
	}
}

func add(sum, x []float32) {
	for i := range sum {
		sum[i] += x[i]
	}
}

// adam moves w, whose moments begin at from and whose steps are counted at row.
func (o *moments) adam(w, g []float32, from, row int) {
	o.step[row]++
	t := float64(o.step[row])
	fresh1, fresh2 := float32(1-math.Pow(.9, t)), float32(1-math.Pow(.999, t))
	m, v := o.m[from:][:len(w)], o.v[from:][:len(w)]
	for i, d := range g {
		m[i] = .9*m[i] + .1*d
		v[i] = .999*v[i] + .001*d*d
		w[i] -= .005 * m[i] / fresh1 / (float32(math.Sqrt(float64(v[i]/fresh2))) + 1e-8)
	}
}

func (l *learner) auc(t *testing.T, test []reference.Example) float64 {
	w := &world{model: l.model, matrix: l.matrix, dense: l.world.dense, examples: test}
	var scores, labels []float32
	for first := 0; first < len(test); first += l.leafSize {
		in := w.leaf(first, min(first+l.leafSize, len(test)), 1)
		preds := make([]float32, in.Batch.Len())
		if err := l.scratch.Predict(in, preds); err != nil {
			t.Fatal(err)
		}
		scores, labels = append(scores, preds...), append(labels, in.Batch.Labels...)
	}
	auc, ok := metric.AUC(scores, labels)
	if !ok {
		t.Fatal("the test part has one class only, or the model has diverged")
	}
	return auc
}
