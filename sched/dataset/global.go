package dataset

// wholeOrder names the stream of random numbers that orders all rows; leaves have
// those below.
const wholeOrder = 1 << 40

// everywhere orders all rows anew: the row at place i of the epoch is row order[i] of
// the files. The order depends on the seed, the epoch and the number of rows alone, so
// it is the same whoever owns which leaf.
type everywhere struct {
	steps []*Step // of all leaves
	share Share
	order []uint32
}

func newEverywhere(st *store, share Share, how shuffle) *everywhere {
	n := 0
	for _, s := range st.steps {
		n += s.Rows
	}
	c := how.counter(wholeOrder, 0)
	return &everywhere{steps: st.steps, share: share, order: c.permutation(nil, n)}
}

// fill puts the rows of own leaf i of batch k into dst.
func (e *everywhere) fill(dst *Batch, i, k int) {
	first := (e.share.First + i) * e.share.Micro
	last := min(first+e.share.Micro, e.steps[k].Rows)
	for at := first; at < last; at++ {
		row := int(e.order[k*e.share.Batch+at])
		in := row % e.share.Batch
		dst.appendRow(&e.steps[row/e.share.Batch].Leaves[in/e.share.Micro], in%e.share.Micro)
	}
}
