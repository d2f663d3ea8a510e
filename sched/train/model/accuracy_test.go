package model_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"psrt/sched/train/metric"
	"psrt/sched/train/model"
	"psrt/sched/train/reference"
)

// TestAccuracyOnMovieLens trains on real ratings, in one process with lazy
// Adam, until the published test AUC (less .002) is reached. PSRT_DATA names
// the folder of data; the MLPs take half a minute each and run with
// PSRT_ACCURACY=all.
func TestAccuracyOnMovieLens(t *testing.T) {
	dir := os.Getenv("PSRT_DATA")
	if dir == "" {
		t.Log("PSRT_DATA is not set: no folder with ml1m/ml1m.{train,test}.libffm.zst to learn from")
		return
	}
	train, test := movieLens(t, dir, "train"), movieLens(t, dir, "test")
	mean := 0.0
	for _, e := range train {
		mean += e.Label / float64(len(train))
	}
	for _, c := range []struct {
		spec   model.Spec
		epochs int
		bar    float64
	}{
		{model.Spec{Kind: model.LR}, 20, .868},
		{model.Spec{Kind: model.FM}, 12, .8915},
		{model.Spec{Kind: model.WideDeep, Hidden: []int{256, 256, 256}, Dropout: .2}, 8, .8967},
		{model.Spec{Kind: model.DeepFM, Hidden: []int{256, 256, 256}, Dropout: .1}, 8, .8977},
		{model.Spec{Kind: model.DCN, Hidden: []int{256, 256}, CrossLayers: 2, Dropout: .2}, 8, .8978},
	} {
		if c.spec.Deep() && os.Getenv("PSRT_ACCURACY") != "all" {
			continue
		}
		t.Run(c.spec.Kind, func(t *testing.T) {
			c.spec.Dim, c.spec.Fields, c.spec.Task, c.spec.Seed, c.spec.MeanLabel = 16, 7, model.CTR, 1, mean
			l := newLearner(t, c.spec, train)
			best := 0.0
			for epoch := 0; epoch < c.epochs && best < c.bar; epoch++ {
				l.epoch(t, epoch)
				auc := l.auc(t, test)
				t.Logf("epoch %d: test AUC %.4f", epoch+1, auc)
				best = max(best, auc)
			}
			if best < c.bar {
				t.Fatalf("test AUC %.4f after %d epochs, want %.4f", best, c.epochs, c.bar)
			}
		})
	}
}

func movieLens(t *testing.T, dir, part string) []reference.Example {
	f, err := os.Open(filepath.Join(dir, "ml1m", "ml1m."+part+".libffm.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	data, err := reference.ParseLibFFM(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// learner is the smallest trainer: rows in one array, lazy Adam, batches of
// 4096 in leaves of 512.
type learner struct {
	*world
	shuffle       *rand.Rand
	scratch       *model.Scratch
	rows, dense   moments
	sums, denseBy []float32 // gradients of a batch
}

type moments struct {
	m, v []float32
	step []int // of each row
}

const learnBatch, learnLeaf, learnKeys = 4096, 512, 9877

func newLearner(t *testing.T, s model.Spec, train []reference.Example) *learner {
	m, err := model.New(s)
	if err != nil {
		t.Fatal(err)
	}
	n, dense := learnKeys*m.RowDim(), m.Layout().Total
	l := &learner{world: &world{model: m, matrix: make([]float32, n), dense: make([]float32, dense), examples: append([]reference.Example(nil), train...)},
		shuffle: seeded(t), scratch: m.NewScratch(learnLeaf),
		rows:  moments{make([]float32, n), make([]float32, n), make([]int, learnKeys)},
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
	l.shuffle.Shuffle(len(l.examples), func(i, j int) { l.examples[i], l.examples[j] = l.examples[j], l.examples[i] })
	dim := l.model.RowDim()
	for first := 0; first < len(l.examples); first += learnBatch {
		last := min(first+learnBatch, len(l.examples))
		clear(l.denseBy)
		met := map[int32]bool{}
		for at := first; at < last; at += learnLeaf {
			in := l.leaf(at, min(at+learnLeaf, last), last-first)
			in.Epoch = epoch
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
	for first := 0; first < len(test); first += learnLeaf {
		in := w.leaf(first, min(first+learnLeaf, len(test)), 1)
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
