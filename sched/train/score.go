package train

import (
	"context"
	"errors"
	"io"

	"psrt/csrc/probe"
	"psrt/sched/dataset"
	"psrt/sched/train/model"
	"psrt/sched/tree"
)

// scoreBatch is how many examples are looked up together.
const scoreBatch = 4096

// scored is one leaf's way through Score.
type scored struct {
	occ   []int32
	keys  []uint64
	uniq  []int32
	vals  []float32
	preds []float32
	in    model.Leaf
}

// Score calls each with the predictions of every row in file order, and the rows, a
// leaf at a time.
// Features that the model does not know count as zero.
func (s *Scorer) Score(ctx context.Context, src *dataset.Source, threads int, each func(preds []float32, rows *dataset.Batch) error) error {
	micro, leaves := tree.Leaves(scoreBatch)
	r, err := src.NewReader(ctx, dataset.Share{Batch: scoreBatch, Micro: micro, First: 0, Last: leaves}, dataset.ReaderOptions{Threads: threads})
	if err != nil {
		return err
	}
	defer r.Close()
	p := newPool(min(threads, leaves), func() {})
	defer p.close()
	var scratch []*model.Scratch
	for range p.threads {
		scratch = append(scratch, s.model.NewScratch(micro))
	}
	work := make([]scored, leaves)
	dedup := make([]probe.DedupScratch, p.threads)
	for {
		step, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		errs := make([]error, p.threads)
		p.each(len(step.Leaves), func(thread, i int) {
			if step.Leaves[i].Len() == 0 || errs[thread] != nil {
				return
			}
			err := s.lookUp(&work[i], &step.Leaves[i], &dedup[thread])
			if err == nil {
				err = scratch[thread].Predict(&work[i].in, work[i].preds)
			}
			errs[thread] = err
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for i := range step.Leaves {
			if step.Leaves[i].Len() > 0 {
				if err := each(work[i].preds, &step.Leaves[i]); err != nil {
					return err
				}
			}
		}
		step.Release()
	}
}

// lookUp gathers a leaf's rows.
func (s *Scorer) lookUp(w *scored, b *dataset.Batch, dedup *probe.DedupScratch) error {
	n, dim := len(b.Keys), s.model.RowDim()
	w.occ, w.keys = grow(w.occ, n), grow(w.keys, n)
	u := 0
	if n > 0 {
		u = probe.Dedup(dedup, b.Keys, w.occ, w.keys)
	}
	w.uniq, w.vals = grow(w.uniq, u), grow(w.vals, u*dim)
	w.preds = grow(w.preds, b.Len())
	if err := s.rows.gather(w.keys[:u], w.vals); err != nil {
		return err
	}
	for i := range w.uniq {
		w.uniq[i] = int32(i)
	}
	w.in = model.Leaf{Batch: b, Occ: w.occ, Uniq: w.uniq, Matrix: w.vals, Dense: s.dense}
	return nil
}
