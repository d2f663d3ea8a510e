package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"psrt/sched/client"
	"psrt/sched/compress"
	"psrt/sched/densemap"
	"psrt/tiers/table"
)

// CompressUse is what --compress and --merge-pushes did at worker 0.
type CompressUse = client.CompressStats

func (j *Job) validateCompress() error {
	if err := j.Compress.Check(); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if j.Compress.On() && j.Audit != nil {
		return fmt.Errorf("train: %s with --audit: a record says what workers have computed, and servers are given something shorter; leave out one of them", j.Compress.Flag())
	}
	if err := j.validateMerge(); err != nil {
		return err
	}
	if j.Compress.Code == compress.Top && j.bsp() && j.Stream != nil && j.Checkpoint != nil && j.Checkpoint.Resume {
		return fmt.Errorf("train: --compress %s with --sync %s, --stream and --resume: what workers have kept of gradients is not in checkpoints of a stream, so the model would not be that of a job that was never interrupted; resume with --compress fp16, int8 or none, or with --sync %s or %s", j.Compress, BSP, SSP, ASP)
	}
	return nil
}

// validateMerge checks what may be sent some steps late.
func (j *Job) validateMerge() error {
	most := j.Compress.Merge
	switch late := most - 1; {
	case most < 2:
		return nil
	case j.Sync == BSP:
		return fmt.Errorf("train: --merge-pushes with --sync %s: a step reads all updates of those before it, so none may be sent late; use --sync asp, or ssp with --staleness %d or more", j.Sync, most)
	case j.Sync == SSP && j.Staleness <= late:
		return fmt.Errorf("train: --merge-pushes of %d steps with --staleness %d: what is sent %d steps late would be staler than that; give --staleness %d or more, or merge fewer", most, j.Staleness, late, most)
	case j.Compress.MergeAuto && j.Optimizer.Kind != table.SGD && j.Optimizer.Kind != table.AdaGrad:
		return fmt.Errorf("train: --merge-pushes auto with --optimizer %s, which learns less from the sum of some steps' gradients than from each: use sgd or adagrad, or say how many steps", j.Optimizer.Kind)
	case j.StalenessLeast != nil || len(j.TableSync) > 0:
		return errors.New("train: --merge-pushes with a staleness that moves or is a table's own (--staleness MIN-MAX, --table-sync): give one bound for all, or leave it out")
	case j.Storage != nil || j.Device != nil:
		return errors.New("train: --merge-pushes with rows on disks or a device (--ssd, --hbm-budget): several steps' rows would need a place in memory at once; leave one of them out")
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
// kept, or that were to be merged with more, are pushed, so that what follows sees all of
// the epoch. Every worker does as many as the one needs that has kept most: none has more
// rows than a step before had, for where they lie on disks a step's have to have a place
// in memory, and the model shall not depend on where they lie.
// What is left of dense values is not: a push without examples would change averages.
func (w *worker) pushKept(ctx context.Context, epoch int) error {
	if !w.job.Compress.Keeps() {
		return nil
	}
	all, err := gather(ctx, w, keptName(epoch), w.client.KeptSteps())
	if err != nil {
		return err
	}
	w.unsent.pass()
	steps := max(1, slices.Max(all)) - w.leftSent
	if steps < 0 {
		return fmt.Errorf("train: the process before had trained %d steps of a pass more than it has now: is the data what it was?", -steps)
	}
	w.leftSent = 0
	if err := w.collective.skip(w.clock + uint64(steps)); err != nil {
		return err
	}
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
	switch {
	case w.collective == nil:
		err = w.client.PushDense(b.dense, b.clock, false, &b.pushDense)
	case w.job.evenPushes():
		err = w.client.PushNothing(b.dense, b.rows, b.clock, w.pushesTo, &b.pushDense)
	}
	if err == nil {
		err = w.client.Push(b.rows, b.clock, true, &b.push)
	}
	if err == nil {
		_, err = w.done(true, &b.push, &b.pushDense)
	}
	if n := b.push.Refused; err == nil && n > 0 {
		err = fmt.Errorf("train: worker %d: the gradients of %d rows of table %s that were kept by %s are not finite; lower --lr or look for extreme values in the data", w.rank.Index, n, b.spec.Name, w.job.Compress.Flag())
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

// orBefore says of which other steps gradients may be that are pushed in one.
func (j *Job) orBefore() string {
	if j.Compress.Merge < 2 {
		return ""
	}
	return fmt.Sprintf(" (or one of the %d before it, which may be merged with it)", j.Compress.Merge-1)
}
