package dataset

import "fmt"

// Share says which part of every global batch one worker owns: leaves First to
// Last-1. Leaf j of global batch s is rows s*Batch+j*Micro up to the smaller of
// s*Batch+(j+1)*Micro and (s+1)*Batch of the global row order: the files in
// sorted order, blank lines not counted. The cut into leaves depends on Batch
// and Micro alone, never on how many workers share the leaves; that is what
// lets sums over leaves come out bit for bit the same at every worker count.
type Share struct {
	Batch, Micro int // examples in a global batch, examples in a leaf
	First, Last  int // own leaves: First <= j < Last
}

// Leaves is the number of leaves in a full global batch.
func (s Share) Leaves() int { return (s.Batch + s.Micro - 1) / s.Micro }

// Whole is the share of a worker that owns every leaf.
func Whole(batch, micro int) Share {
	s := Share{Batch: batch, Micro: micro}
	if micro > 0 {
		s.Last = s.Leaves()
	}
	return s
}

// Validate says what is wrong with a share, and what would be right.
func (s Share) Validate() error {
	switch {
	case s.Batch < 1 || s.Batch > MaxBatch:
		return fmt.Errorf("dataset: batch of %d examples, must be 1 to %d", s.Batch, MaxBatch)
	case s.Micro < 1 || s.Micro > s.Batch:
		return fmt.Errorf("dataset: leaf of %d examples in a batch of %d, must be 1 to the batch", s.Micro, s.Batch)
	case s.First < 0 || s.First > s.Last || s.Last > s.Leaves():
		return fmt.Errorf("dataset: leaves %d to %d asked, a batch of %d examples in leaves of %d has %d; lower the number of workers or the leaf size",
			s.First, s.Last, s.Batch, s.Micro, s.Leaves())
	}
	return nil
}

// MaxBatch is the most examples of a global batch: it keeps offsets inside a Batch within
// int32 at any sane row width.
const MaxBatch = 1 << 24

// Step is one worker's part of one global batch.
type Step struct {
	Index    int     // of the global batch in this epoch, from 0
	Rows     int     // examples in the whole global batch, all workers together
	FirstRow uint64  // position of the global batch's first example in the epoch
	Leaves   []Batch // own leaves First to Last-1; empty where a short last batch ends before them

	// From is where the global batch begins in a stream.
	From Cursor

	release func([]Batch)
}

// Release gives the step's memory back to its reader. The step and everything
// in it are dead afterwards. Releasing twice, or a step that came from no
// reader, does nothing.
func (s *Step) Release() {
	if r := s.release; r != nil {
		leaves := s.Leaves
		s.release, s.Leaves = nil, nil
		r(leaves)
	}
}
