package dataset

import (
	"context"
	"math"
	"sync"

	"psrt/sched/usage"
)

// wholeOrder names the stream of random numbers that orders all rows; leaves have
// those below.
const wholeOrder = 1 << 40

// everywhere orders all rows anew: the row at place i of the epoch is row order[i] of
// the files. The order depends on the seed, the epoch and the number of rows alone, so
// it is the same whoever owns which leaf.
type everywhere struct {
	steps []*Step // their own leaves alone
	share Share
	order []uint32

	me     int32
	owners []int32   // of leaves; nil: all are this reader's
	others []*supply // by reader, nil for those that give nothing
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// mostOrdered is how many rows an order has numbers for.
const mostOrdered = math.MaxUint32

// orderable refuses rows that cannot be numbered.
func (st *store) orderable() error {
	n := 0
	for _, s := range st.steps {
		if n += s.Rows; n > mostOrdered {
			return fileError("", nil, "a global shuffle of more than %d rows; use --dataset memory without --global-shuffle, or train on fewer files at a time", mostOrdered)
		}
	}
	return nil
}

func newEverywhere(ctx context.Context, st *store, share Share, how shuffle, parts *Parts, busy *usage.Clock) *everywhere {
	n := 0
	for _, s := range st.steps {
		n += s.Rows
	}
	c := how.counter(wholeOrder, 0)
	e := &everywhere{steps: st.steps, share: share, order: c.permutation(nil, n)}
	ctx, e.cancel = context.WithCancel(ctx)
	if parts == nil {
		return e
	}
	e.me, e.owners, e.others = int32(parts.Me), parts.owners(), make([]*supply, len(parts.Shares))
	for i, s := range parts.Shares {
		if i == parts.Me || s.First == s.Last {
			continue
		}
		x := &supply{busy: busy, full: make(chan *Batch, askedAhead), free: make(chan *Batch, askedAhead+1)}
		for range cap(x.free) {
			x.free <- new(Batch)
		}
		e.others[i] = x
		w := e.walk()
		e.wait.Go(func() {
			x.run(ctx, i, parts.Rows, func(most int, rows []uint32) []uint32 { return w.of(int32(i), most, rows) })
		})
	}
	return e
}

func (e *everywhere) owner(leaf int) int32 {
	if e.owners == nil {
		return e.me
	}
	return e.owners[leaf]
}

// fill puts the rows of own leaf i of batch k into dst.
func (e *everywhere) fill(dst *Batch, i, k int) error {
	first, last := e.places(i, k)
	for _, row := range e.order[first:last] {
		step, leaf, at := e.share.locate(row)
		if who := e.owner(leaf); who != e.me {
			if err := e.others[who].next(dst); err != nil {
				return err
			}
			continue
		}
		dst.appendRow(&e.steps[step].Leaves[leaf-e.share.First], at)
	}
	return nil
}

// places are those of own leaf i of batch k in the epoch.
func (e *everywhere) places(i, k int) (first, last int) {
	in := min((e.share.First+i)*e.share.Micro, e.steps[k].Rows)
	to := min(in+e.share.Micro, e.steps[k].Rows)
	return k*e.share.Batch + in, k*e.share.Batch + to
}

func (e *everywhere) close() {
	e.cancel()
	e.wait.Wait()
}

// walk goes through this reader's places in the order in which they are filled.
type walk struct {
	e    *everywhere
	k, i int
	at   int // places of the leaf behind
}

func (e *everywhere) walk() *walk { return &walk{e: e} }

// of appends the next rows of a reader to rows, at most so many.
func (w *walk) of(reader int32, most int, rows []uint32) []uint32 {
	for w.k < len(w.e.steps) {
		first, last := 0, 0
		if w.i < w.e.share.Last-w.e.share.First {
			first, last = w.e.places(w.i, w.k)
		}
		for ; first+w.at < last; w.at++ {
			row := w.e.order[first+w.at]
			if _, leaf, _ := w.e.share.locate(row); w.e.owner(leaf) != reader {
				continue
			}
			if most == 0 {
				return rows
			}
			rows = append(rows, row)
			most--
		}
		w.at = 0
		if w.i++; w.i >= w.e.share.Last-w.e.share.First {
			w.k, w.i = w.k+1, 0
		}
	}
	return rows
}
