package whole

import (
	"context"
	"path/filepath"

	"psrt/sched/compress"
	"psrt/sched/dataset"
	"psrt/sched/dataset/gen"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

// data is what all sides train on, and the model that they train.
type data struct {
	cfg   *Config
	src   *dataset.Source
	model *model.Model
	spec  model.Spec
}

const genThreads = 2

func makeData(ctx context.Context, c *Config) (*data, error) {
	path := filepath.Join(c.Dir, "rows.libffm")
	rows := int64(c.Steps) * int64(c.Batch)
	if _, err := gen.Run(ctx, gen.Config{Kind: "zipf", Rows: rows, Fields: c.Fields, Vocab: c.Vocab, Zipf: c.Zipf, Seed: c.Seed, Out: path, Threads: genThreads}); err != nil {
		return nil, err
	}
	src, err := dataset.Open(ctx, []string{path}, dataset.Options{})
	if err != nil {
		return nil, err
	}
	d := &data{cfg: c, src: src, spec: c.spec(src.Describe().MeanLabel)}
	d.model, err = model.New(d.spec)
	return d, err
}

// share is the whole of each batch.
func (d *data) share() dataset.Share {
	micro, _ := tree.Leaves(d.cfg.Batch)
	return dataset.Whole(d.cfg.Batch, micro)
}

// job is the trainer's, with one server and one worker.
func (d *data) job(sync string, how compress.Choice) *train.Job {
	return &train.Job{
		Data: d.src.Describe().Files, Reading: d.src.Options(), Dataset: dataset.Queue,
		Model: d.spec, Optimizer: optimizer, DenseOptimizer: optimizer,
		Batch: d.cfg.Batch, Epochs: 1, Seed: d.cfg.Seed, Sync: sync,
		Servers: 1, Workers: 1, Threads: 1, Lanes: 1, Scratch: d.cfg.Dir, Compress: how,
	}
}

// surviving is the job as psrt train has it by default: another process may go on for a
// worker that dies, which holds its pushes closer together.
func (d *data) surviving() *train.Job {
	j := d.job(train.ASP, compress.Choice{})
	j.OnWorkerLoss = train.LossRestart
	return j
}

// crew is the job of several workers in BSP, which pull and push as one or each for itself.
func (d *data) crew(combine string) *train.Job {
	j := d.job(train.BSP, compress.Choice{})
	j.Workers, j.Combine = d.cfg.Crew, combine
	return j
}

// rowsOf is the trainer's table, of which the rival's are born alike.
func rowsOf(m *model.Model) table.Spec {
	return table.Spec{Name: train.EmbeddingTable, ID: train.EmbeddingID, Dim: m.RowDim(), Init: m.RowInit(), Optimizer: optimizer}
}
