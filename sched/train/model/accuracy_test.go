package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

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
			l := newLearner(t, c.spec, train, 9877, 4096, 512)
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
