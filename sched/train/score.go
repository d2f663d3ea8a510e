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

// ScoreOptions say how rows are scored.
type ScoreOptions struct {
	Threads int
	// Rank and Ranks share the rows out: of every Ranks runs of some thousand rows this
	// is for the one of number Rank. Ranks 0: all rows.
	Rank, Ranks int
	// Run is called behind the last leaf of a run, the same number of times at each rank;
	// may be nil.
	Run func() error
}

// ScoredLeaf is some rows that follow each other, and what was predicted of them. It is
// good until the callback that got it returns.
type ScoredLeaf struct {
	Preds []float32
	Rows  *dataset.Batch
	First uint64 // number of the first row among all, from 0
	work  *scored
}

// scored is one leaf's way through Score.
type scored struct {
	occ   []int32
	keys  []uint64
	uniq  []int32
	vals  []float32
	preds []float32
	in    model.Leaf
}

// Score calls each with the predictions of every row in file order, a leaf at a time.
// How rows are cut into leaves does not depend on the number of ranks, and so neither do
// the predictions. Features that the model does not know count as zero.
func (s *Scorer) Score(ctx context.Context, src *dataset.Source, opts ScoreOptions, each func(*ScoredLeaf) error) error {
	micro, leaves := tree.Leaves(scoreBatch)
	first := opts.Rank * leaves
	share := dataset.Share{Batch: micro * leaves * max(1, opts.Ranks), Micro: micro, First: first, Last: first + leaves}
	r, err := src.NewReader(ctx, share, dataset.ReaderOptions{Threads: opts.Threads})
	if err != nil {
		return err
	}
	defer r.Close()
	p := newPool(min(opts.Threads, leaves), func() {})
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
			if step.Leaves[i].Len() == 0 {
				continue
			}
			leaf := ScoredLeaf{Preds: work[i].preds, Rows: &step.Leaves[i], First: step.FirstRow + uint64((first+i)*micro), work: &work[i]}
			if err := each(&leaf); err != nil {
				return err
			}
		}
		step.Release()
		if opts.Run != nil {
			if err := opts.Run(); err != nil {
				return err
			}
		}
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
