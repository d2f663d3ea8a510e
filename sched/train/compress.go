package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"psrt/sched/client"
	"psrt/sched/compress"
	"psrt/sched/densemap"
)

// CompressUse is what --compress did at worker 0.
type CompressUse = client.CompressStats

func (j *Job) validateCompress() error {
	if err := j.Compress.Check(); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if j.Compress.On() && j.Audit != nil {
		return fmt.Errorf("train: --compress %s with --audit: a record says what workers have computed, and servers are given something shorter; leave out one of them", j.Compress)
	}
	if j.Compress.Code == compress.Top && j.OnWorkerLoss != "" && j.OnWorkerLoss != LossEnd {
		return fmt.Errorf("train: --compress %s with --on-worker-loss %s: what a worker has not sent yet is lost with it; use fp16 or int8", j.Compress, j.OnWorkerLoss)
	}
	if j.Compress.Code == compress.Top && j.bsp() && j.Stream != nil && j.Checkpoint != nil && j.Checkpoint.Resume {
		return fmt.Errorf("train: --compress %s with --sync %s, --stream and --resume: what workers have kept of gradients is not in checkpoints of a stream, so the model would not be that of a job that was never interrupted; resume with --compress fp16, int8 or none, or with --sync %s or %s", j.Compress, BSP, SSP, ASP)
	}
	return nil
}

// cut lets a batch's dense pushes be compressed.
func (w *worker) cut(b *batch) error {
	if !w.job.Compress.On() {
		return nil
	}
	blocks, err := densemap.Cut(w.ranges)
	if err == nil {
		b.dense.Cut(blocks)
	}
	return err
}

// pushKept ends an epoch with steps of which nothing is computed: rows that topk has
// kept are pushed, so that what follows sees all of the epoch. Every worker does as many
// as the one needs that has kept most: none has more rows than a step before had, for
// where they lie on disks a step's have to have a place in memory, and the model shall
// not depend on where they lie.
// What is left of dense values is not: a push without examples would change averages.
func (w *worker) pushKept(ctx context.Context, epoch int) error {
	if w.job.Compress.Code != compress.Top {
		return nil
	}
	all, err := gather(ctx, w, keptName(epoch), w.client.KeptSteps())
	if err != nil {
		return err
	}
	w.unsent.pass()
	steps := max(1, slices.Max(all))
	w.client.SendAll(true)
	defer w.client.SendAll(false)
	for range steps {
		if err := w.pushKeptStep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pushKeptStep is one of them.
func (w *worker) pushKeptStep(ctx context.Context) error {
	var b *batch
	select {
	case b = <-w.free:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { w.free <- b }()
	b.clock = w.clock
	w.clock++
	if err := b.rows.Plan(nil, nil); err != nil {
		return err
	}
	var err error
	if w.collective == nil {
		err = w.client.PushDense(b.dense, b.clock, false, &b.pushDense)
	}
	w.collective.skip(b.clock)
	if err == nil {
		err = w.client.Push(b.rows, b.clock, true, &b.push)
	}
	if err == nil {
		_, err = w.done(true, &b.push, &b.pushDense)
	}
	if n := b.push.Refused; err == nil && n > 0 {
		err = errors.New("train: gradients that were kept by --compress are not finite; lower --lr or look for extreme values in the data")
	}
	return err
}

// compressUse is nil where nothing is compressed.
func (w *worker) compressUse() *CompressUse {
	if !w.job.Compress.On() {
		return nil
	}
	s := w.client.Compressed()
	return &s
}
