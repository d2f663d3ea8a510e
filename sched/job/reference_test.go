package job

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"psrt/sched/dataset"
	"psrt/sched/server"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/sched/train/reference"
	"psrt/sched/tree"
	"psrt/tiers/accessor"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// The distributed run agrees, row by row and element by element, with plain
// float64 training of the same data in one loop that knows no servers, no
// micro-batches' tree and no float32.
func TestAgreesWithFloat64(t *testing.T) {
	// eps keeps Adam's quotient tame where gradients nearly vanish: there
	// rounding alone decides its sign.
	adam := table.Optimizer{Kind: table.Adam, LR: 0.01, Eps: 1e-3}.WithDefaults()
	adagrad := table.Optimizer{Kind: table.AdaGrad, LR: 0.05, InitialAccumulator: 0.01}.WithDefaults()
	ftrl := table.Optimizer{Kind: table.FTRL, LR: 0.5, L1: 1e-4, L2: 1e-3}.WithDefaults()
	for _, c := range some([]struct {
		name          string
		spec          model.Spec
		sparse, dense table.Optimizer
	}{
		{"lr ftrl", model.Spec{Kind: model.LR}, ftrl, adam},
		{"fm adagrad", model.Spec{Kind: model.FM, Dim: 8}, adagrad, adagrad},
		{"deepfm adam", model.Spec{Kind: model.DeepFM, Dim: 8, Hidden: []int{16, 8}, Dropout: 0.2}, adam, adam},
		{"dcn batch norm", model.Spec{Kind: model.DCN, Dim: 4, Hidden: []int{16}, CrossLayers: 2, BatchNorm: true}, adam, adam},
	}) {
		t.Run(c.name, func(t *testing.T) {
			j := sampleJob(t, model.FM)
			c.spec.Task, c.spec.Seed, c.spec.Fields, c.spec.MeanLabel = model.CTR, 5, j.Model.Fields, j.Model.MeanLabel
			j.Model, j.Optimizer, j.DenseOptimizer = c.spec, c.sparse, c.dense
			j.Dataset, j.Shuffle, j.Servers, j.Workers, j.Epochs, j.Batch = "queue", false, 2, 2, 3, 96
			j.Out = filepath.Join(t.TempDir(), "model")
			res := run(t, *j, "shm")

			want := float64Training(t, j)
			m, err := ckpt.Open(j.Out)
			if err != nil {
				t.Fatal(err)
			}
			worst := compareRows(t, m, want) + compareDense(t, m, j, want)
			t.Logf("%d rows after %d steps; largest difference %.2g", res.Features, 3*((3000+95)/96), worst)
		})
	}
}

func float64Training(t *testing.T, j *train.Job) *reference.Trainer {
	t.Helper()
	m, err := model.New(j.Model)
	if err != nil {
		t.Fatal(err)
	}
	spec := table.Spec{Name: train.EmbeddingTable, ID: 1, Dim: m.RowDim(), Init: m.RowInit(), Optimizer: j.Optimizer}
	birth, err := accessor.New(spec, j.Seed)
	if err != nil {
		t.Fatal(err)
	}
	micro, _ := tree.Leaves(j.Batch)
	tr, err := reference.NewTrainer(reference.Config{Spec: j.Model, Sparse: j.Optimizer, Dense: j.DenseOptimizer, EMARate: 0.1,
		Batch: j.Batch, Leaf: micro, Birth: func(key uint64) []float32 {
			row := make([]float32, birth.RowFloats())
			birth.Born(key, row)
			return row[:m.RowDim()]
		}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(j.Data[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := reference.ParseLibFFM(f)
	if err != nil {
		t.Fatal(err)
	}
	for e := range j.Epochs {
		tr.Epoch(data, e)
	}
	return tr
}

// tolerance is what a hundred steps of float32 may add up to, on values of the
// order of one.
const tolerance = 1e-4

func near(got float32, want float64) (difference float64, ok bool) {
	d := math.Abs(float64(got) - want)
	return d, d <= tolerance*math.Max(1, math.Abs(want))
}

func compareRows(t *testing.T, m *ckpt.Model, want *reference.Trainer) (worst float64) {
	t.Helper()
	spec := m.Spec(1)
	width, seen := spec.RowFloats(), 0
	var mu sync.Mutex
	err := m.Rows(context.Background(), 1, 1, nil, func(keys []uint64, rows []float32) error {
		mu.Lock()
		defer mu.Unlock()
		for i, k := range keys {
			row := want.Params.Rows[k]
			if row == nil {
				t.Fatalf("row %d exists only in the distributed run", k)
			}
			for e := range spec.Dim {
				d, ok := near(rows[i*width+e], row[e])
				if worst = math.Max(worst, d); !ok {
					t.Fatalf("row %d, element %d: %v, in float64 %v", k, e, rows[i*width+e], row[e])
				}
			}
			seen++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != len(want.Params.Rows) {
		t.Fatalf("%d rows, in float64 %d", seen, len(want.Params.Rows))
	}
	return worst
}

func compareDense(t *testing.T, m *ckpt.Model, j *train.Job, want *reference.Trainer) (worst float64) {
	t.Helper()
	mod, err := model.New(j.Model)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, mod.Layout().Total)
	err = m.DenseBlocks(context.Background(), server.DenseID, func(first int64, values, _ []float32) error {
		copy(got[first:], values)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range mod.Layout().Tensors {
		for i, w := range want.Params.Dense[tensor.Name] {
			d, ok := near(got[tensor.Offset+i], w)
			if worst = math.Max(worst, d); !ok {
				t.Fatalf("%s[%d]: %v, in float64 %v", tensor.Name, i, got[tensor.Offset+i], w)
			}
		}
	}
	return worst
}

// What a job says over the coordinator comes out as it went in.
func TestJobSurvivesJSON(t *testing.T) {
	j := sampleJob(t, model.DeepFM)
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var back train.Job
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(&back)
	if err != nil || string(again) != string(b) || back.Reading.Format != dataset.LibFFM {
		t.Fatalf("%s\nbecame\n%s (%v)", b, again, err)
	}
}
