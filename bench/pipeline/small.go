package pipeline

import (
	"context"
	"path/filepath"

	"psrt/sched/dataset"
	"psrt/sched/dataset/gen"
	"psrt/sched/job"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// smallJob is a training that takes a moment, in this process.
type smallJob train.Job

// small makes data for it; layout says where it runs.
func small(ctx context.Context, c *Config) (*smallJob, error) {
	path := filepath.Join(c.Dir, "rows.libffm")
	if _, err := gen.Run(ctx, gen.Config{Kind: "zipf", Rows: 20_000, Fields: 6, Vocab: 5000, Zipf: 1.1, Seed: c.Seed, Out: path, Threads: 1}); err != nil {
		return nil, err
	}
	src, err := dataset.Open(ctx, []string{path}, dataset.Options{})
	if err != nil {
		return nil, err
	}
	d, adagrad := src.Describe(), table.Optimizer{Kind: table.AdaGrad}.WithDefaults()
	return &smallJob{Data: d.Files, Reading: src.Options(), Dataset: dataset.Queue,
		Model:     model.Spec{Kind: model.DeepFM, Dim: 4, Hidden: []int{8}, Fields: d.Fields, Task: model.CTR, Seed: c.Seed, MeanLabel: model.StartMean(model.CTR, d.MeanLabel, d.SniffedRows)},
		Optimizer: adagrad, DenseOptimizer: adagrad, Batch: 1024, Epochs: 1, Seed: c.Seed, Sync: train.BSP,
		Threads: 1, Lanes: 1, Scratch: c.Dir}, nil
}

// layout is the job over so many ranks.
func layout(base *smallJob, workers, servers, dense int) *smallJob {
	j := *base
	j.Workers, j.Servers, j.Heter = workers, servers, dense
	return &j
}

func (j *smallJob) run(ctx context.Context) (*train.Result, error) {
	return job.RunInProcess(ctx, (*train.Job)(j), "shm", nil)
}
