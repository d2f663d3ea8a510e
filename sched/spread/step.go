package spread

import (
	"fmt"
	"slices"
	"time"

	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/nccl/coll"
	"psrt/rdma/mem"
	"psrt/tiers"
	"psrt/tiers/table"
)

// Batch is what a rank has pulled, until Release: its keys' places, and, as an owner,
// the rows of those that all ranks asked it for.
type Batch struct {
	order   []int32 // of mine, key i is order[i] of the caller's
	out, in []int   // keys, by rank
	look    tiers.Lookup
}

// Pull fetches the weights of keys, each once, to dst: those of key i to dst[i x step:].
// Rows that are not there are made with create, and are zeros without. All ranks pull
// at once, any number of keys each.
func (t *Table) Pull(keys []uint64, dst []float32, step int, create bool) (*Batch, error) {
	if err := t.checkPull(keys, dst, step); err != nil {
		return nil, t.broken(err)
	}
	b := t.plan(keys)
	if err := t.sendKeys(b); err != nil {
		return nil, t.broken(err)
	}
	asked := t.keysIn[:sum(b.in)]
	b.look = tiers.Lookup{Keys: asked, Rows: make([]uint32, len(asked)), Create: create, Into: t.others[:len(asked)*t.dim]}
	if err := t.broken(t.lookUp(&b.look)); err != nil {
		return nil, err
	}
	if !b.look.Gathered {
		t.cfg.Rows.Gather(b.look.Rows, b.look.Into)
	}
	if err := t.exchange(coll.F32, mem.Bytes(b.look.Into), mem.Bytes(t.mine[:len(keys)*t.dim]), b.in, b.out, t.dim); err != nil {
		t.cfg.Rows.Release(b.look.Rows)
		return nil, err
	}
	for i, k := range b.order {
		copy(dst[int(k)*step:int(k)*step+t.dim], t.mine[i*t.dim:])
	}
	t.pulling = true
	return b, nil
}

func (t *Table) checkPull(keys []uint64, dst []float32, step int) error {
	switch {
	case t.pulling:
		return fmt.Errorf("%w: the one before it was not released", ErrBatch)
	case len(keys) > t.cfg.BatchRows:
		return fmt.Errorf("%w: %d keys, there is room for %d: raise Config.BatchRows at all ranks", ErrBatch, len(keys), t.cfg.BatchRows)
	case step < t.dim || len(keys) > 0 && len(dst) < (len(keys)-1)*step+t.dim:
		return fmt.Errorf("%w: rows of %d floats, %d apart, for %d keys in %d floats", ErrBatch, t.dim, step, len(keys), len(dst))
	}
	return nil
}

// plan orders keys by their owners, and counts them.
func (t *Table) plan(keys []uint64) *Batch {
	b := &Batch{order: make([]int32, len(keys)), out: make([]int, t.n), in: make([]int, t.n)}
	owners := t.owners[:len(keys)]
	t.cfg.Map.LanesOfKeys(keys, owners)
	for _, o := range owners {
		b.out[o]++
	}
	at := make([]int, t.n)
	for r := 1; r < t.n; r++ {
		at[r] = at[r-1] + b.out[r-1]
	}
	for i, o := range owners {
		b.order[at[o]], t.keysOut[at[o]] = int32(i), keys[i]
		at[o]++
	}
	return b
}

// sendKeys has every owner learn what it is asked for.
func (t *Table) sendKeys(b *Batch) error {
	for r, n := range b.out {
		t.counts[0][r] = uint64(n)
	}
	if err := t.swapCounts(); err != nil {
		return err
	}
	for r, n := range t.counts[1] {
		if n > uint64(t.cfg.BatchRows) {
			return fmt.Errorf("%w: rank %d asks for %d rows, there is room for %d a rank", ErrBatch, r, n, t.cfg.BatchRows)
		}
		b.in[r] = int(n)
	}
	return t.exchange(coll.U64, mem.Bytes(t.keysOut[:len(b.order)]), mem.Bytes(t.keysIn[:sum(b.in)]), b.out, b.in, 1)
}

// lookUp waits for the rows.
func (t *Table) lookUp(l *tiers.Lookup) error {
	for done, end := t.cfg.Rows.Start(l), time.Now().Add(t.cfg.Within); !done; {
		if time.Now().After(end) {
			return fmt.Errorf("%w: those of %d keys are not there after %v: look at the disks below, or raise Config.Within; Rows must be closed", ErrLate, len(l.Keys), t.cfg.Within)
		}
		done = slices.Contains(t.cfg.Rows.Poll(), l)
	}
	return l.Err
}

// Push changes the rows of a batch by gradients of its keys, as they were pulled; the
// gradients of all ranks for a row are added first, in the tree over the ranks. refused
// counts rows here that were left as they were, for a sum that is not finite.
func (t *Table) Push(b *Batch, grads []float32) (refused int, err error) {
	if !t.pulling || len(grads) != len(b.order)*t.dim {
		return 0, t.broken(fmt.Errorf("%w: %d floats of gradients for %d rows of %d", ErrBatch, len(grads), len(b.order), t.dim))
	}
	for i, k := range b.order {
		copy(t.mine[i*t.dim:(i+1)*t.dim], grads[int(k)*t.dim:])
	}
	came := t.others[:sum(b.in)*t.dim]
	if err := t.exchange(coll.F32, mem.Bytes(t.mine[:len(grads)]), mem.Bytes(came), b.out, b.in, t.dim); err != nil {
		return 0, err
	}
	rows, err := t.add(b, came)
	if err != nil {
		return 0, t.broken(err)
	}
	return t.cfg.Rows.Apply(rows, t.sums[:len(rows)*t.dim]), nil
}

// add adds what came, into sums; rows are whose they are, each once.
func (t *Table) add(b *Batch, came []float32) (rows []uint32, err error) {
	asked := b.look.Rows
	rows, occ := make([]uint32, len(asked)), make([]int32, len(asked))
	rows = rows[:probe.DedupU32(&t.dedup, asked, occ, rows)]
	srcs, idx := make([][]float32, t.n), make([][]int32, t.n)
	at := 0
	for r, n := range b.in {
		srcs[r], idx[r] = came[at*t.dim:(at+n)*t.dim], make([]int32, len(rows))
		for u := range idx[r] {
			idx[r][u] = -1
		}
		for i, u := range occ[at : at+n] {
			if idx[r][u] >= 0 && rows[u] != table.NoRow {
				return nil, fmt.Errorf("%w: rank %d has key %#x twice: give each once, with the sum of its gradients", ErrBatch, r, b.look.Keys[at+i])
			}
			idx[r][u] = int32(i)
		}
		at += n
	}
	kernels.TreeSumRows(t.sums[:len(rows)*t.dim], t.dim, len(rows), srcs, idx, t.merges)
	return t.without(rows), nil
}

// without leaves out what is no row, and its sum.
func (t *Table) without(rows []uint32) []uint32 {
	n := 0
	for u, row := range rows {
		if row == table.NoRow {
			continue
		}
		if n < u {
			rows[n] = row
			copy(t.sums[n*t.dim:(n+1)*t.dim], t.sums[u*t.dim:])
		}
		n++
	}
	return rows[:n]
}

// Release lets a batch's rows go.
func (t *Table) Release(b *Batch) {
	t.cfg.Rows.Release(b.look.Rows)
	t.pulling = false
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
