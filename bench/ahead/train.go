package ahead

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"psrt/sched/dataset"
	"psrt/sched/dataset/gen"
	"psrt/sched/job"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// generate writes examples, and gives them back as data of a job.
func generate(ctx context.Context, c *Config, name string, examples int64, vocab uint64) (*dataset.Source, error) {
	path := filepath.Join(c.Dir, name+".libffm")
	if _, err := gen.Run(ctx, gen.Config{Kind: "zipf", Rows: examples, Fields: c.Fields, Vocab: vocab, Zipf: c.Zipf, Seed: c.Seed, Out: path, Threads: genThreads}); err != nil {
		return nil, err
	}
	return dataset.Open(ctx, []string{path}, dataset.Options{})
}

const genThreads = 2

// newJob is a job of one server with one lane and one worker, whose rows are all
// in memory: factorization machines, of which reading rows is a large part.
func newJob(c *Config, src *dataset.Source) *train.Job {
	d := src.Describe()
	adagrad := table.Optimizer{Kind: table.AdaGrad}.WithDefaults()
	return &train.Job{
		Data: d.Files, Reading: src.Options(), Dataset: dataset.Queue,
		Model:     model.Spec{Kind: model.FM, Dim: c.Dim, Fields: d.Fields, Task: model.CTR, Seed: c.Seed, MeanLabel: model.StartMean(model.CTR, d.MeanLabel, d.SniffedRows)},
		Optimizer: adagrad, DenseOptimizer: adagrad,
		Batch: c.Batch, Epochs: c.Epochs, Seed: c.Seed, Sync: train.BSP,
		Servers: 1, Workers: 1, Threads: c.Threads, Lanes: 1, Scratch: c.Dir,
	}
}

// onDisk has a job keep rows on disk but for what fits into memory.
func onDisk(c *Config, j *train.Job, memory int64, policy string) (*train.Job, error) {
	dir, err := os.MkdirTemp(c.Dir, "rows-")
	if err != nil {
		return nil, err
	}
	k := *j
	k.MaxBytes, k.LookAhead = memory, train.LookAhead
	k.Storage = &train.Storage{Dirs: []string{dir}, Policy: policy}
	return &k, nil
}

func run(ctx context.Context, j *train.Job) (*train.Result, error) {
	r, err := job.RunInProcess(ctx, j, "shm", nil)
	if err != nil {
		return nil, err
	}
	if j.Storage != nil {
		for _, d := range j.Storage.Dirs {
			err = errors.Join(err, os.RemoveAll(d))
		}
	}
	if r.TrainSeconds <= 0 || r.Features <= 0 {
		return nil, errors.Join(err, fmt.Errorf("ahead: a job of %d examples took %g s and made %d rows", r.Examples, r.TrainSeconds, r.Features))
	}
	return r, err
}
