package train

import (
	"context"
	"errors"
	"io"

	"psrt/csrc/probe"
	"psrt/sched/dataset"
	"psrt/sched/train/model"
	"psrt/sched/tree"
	"psrt/tiers/dram"
)

// scoreBatch is how many examples are looked up together.
const scoreBatch = 4096

// Scorer is a model in this process's memory, without servers: what `psrt
// eval` and `psrt predict` use. One goroutine uses it.
type Scorer struct {
	Info  ModelInfo
	model *model.Model
	rows  *dram.Table
	dense []float32
}

// Close frees the model.
func (s *Scorer) Close() error { return s.rows.Close() }

// Rows is the number of features the model has.
func (s *Scorer) Rows() int { return s.rows.Len() }

// scored is one leaf's way through Score.
type scored struct {
	occ   []int32
	keys  []uint64
	ids   []uint32
	uniq  []int32
	vals  []float32
	preds []float32
	in    model.Leaf
}

// Score calls each with the predictions and labels of every row in file order.
// Features that the model does not know count as zero.
func (s *Scorer) Score(ctx context.Context, src *dataset.Source, threads int, each func(preds, labels []float32) error) error {
	micro, leaves := tree.Leaves(scoreBatch)
	r, err := src.NewReader(ctx, dataset.Share{Batch: scoreBatch, Micro: micro, First: 0, Last: leaves}, dataset.ReaderOptions{Threads: threads})
	if err != nil {
		return err
	}
	defer r.Close()
	p := newPool(min(threads, leaves))
	defer p.close()
	var scratch []*model.Scratch
	for range p.threads {
		scratch = append(scratch, s.model.NewScratch(micro))
	}
	work := make([]scored, leaves)
	var dedup probe.DedupScratch
	for {
		step, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range step.Leaves {
			if err := s.lookUp(&work[i], &step.Leaves[i], &dedup); err != nil {
				return err
			}
		}
		errs := make([]error, p.threads)
		p.each(len(step.Leaves), func(thread, i int) {
			if n := step.Leaves[i].Len(); n > 0 {
				if err := scratch[thread].Predict(&work[i].in, work[i].preds); err != nil {
					errs[thread] = err
				}
			}
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for i := range step.Leaves {
			if step.Leaves[i].Len() > 0 {
				if err := each(work[i].preds, step.Leaves[i].Labels); err != nil {
					return err
				}
			}
		}
		step.Release()
	}
}

// lookUp gathers a leaf's rows. The table is not shared between goroutines,
// so leaves are looked up one after the other and computed in parallel.
func (s *Scorer) lookUp(w *scored, b *dataset.Batch, dedup *probe.DedupScratch) error {
	n, dim := len(b.Keys), s.model.RowDim()
	w.occ, w.keys = grow(w.occ, n), grow(w.keys, n)
	u := 0
	if n > 0 {
		u = probe.Dedup(dedup, b.Keys, w.occ, w.keys)
	}
	w.ids, w.uniq, w.vals = grow(w.ids, u), grow(w.uniq, u), grow(w.vals, u*dim)
	w.preds = grow(w.preds, b.Len())
	if _, err := s.rows.Lookup(w.keys[:u], w.ids, false); err != nil {
		return err
	}
	s.rows.Gather(w.ids, w.vals)
	for i := range w.uniq {
		w.uniq[i] = int32(i)
	}
	w.in = model.Leaf{Batch: b, Occ: w.occ, Uniq: w.uniq, Matrix: w.vals, Dense: s.dense}
	return nil
}
