package coll

import (
	"errors"
	"io"

	"psrt/csrc/fold"
	"psrt/rdma"
)

// Group is a rank's place among others. Any goroutine may use it; calls are made
// one after the other, in the order in which they were started here.
type Group interface {
	Rank() int
	Size() int
	// Register makes m fit for Send and Recv until it is closed, which is after the
	// calls that use it are over, and before m is given back.
	Register(m rdma.Memory, purpose string) (Memory, error)
	// Do makes a call and waits for its end.
	Do(c Call) error
	// Start begins a call, behind those that were started before. At most
	// MaxPending are not over at a time: more fail with ErrBusy.
	Start(c Call) *Pending
	// Abort ends the calls here and at all other ranks, which blame this one and say
	// why. The group is broken.
	Abort(why error)
	// Err is why the group is broken, nil while it is not.
	Err() error
	Close() error
}

// Memory is registered with a group.
type Memory interface {
	Bytes() []byte
	// Close ends the registration. With ErrWrites the memory must stay, see GiveBack.
	Close() error
}

// GiveBack closes m and then what it is of, unless something may still write there.
func GiveBack(m Memory, of io.Closer) error {
	err := m.Close()
	if errors.Is(err, ErrWrites) {
		return err
	}
	return errors.Join(err, of.Close())
}

// MaxPending bounds the calls of a group that were started and are not over.
const MaxPending = 256

// Merge is one step of a reduction: what rank Dst's has become, combined with what
// Src's has become. A rank that is absent leaves its partner as it is.
type Merge = fold.Merge

// TreeOrder is the order that groups reduce in where they are given none: over n
// ranks, the tree over the first k with the tree over the rest, k the largest power
// of two below n.
func TreeOrder(n int) []Merge { return treeOrder(0, n) }

func treeOrder(first, n int) []Merge {
	if n < 2 {
		return nil
	}
	k := 1
	for 2*k < n {
		k *= 2
	}
	return append(append(treeOrder(first, k), treeOrder(first+k, n-k)...), Merge{Dst: int32(first), Src: int32(first + k)})
}

// CheckOrder says whether merges take every rank but the first into another, once.
func CheckOrder(merges []Merge, n int) bool {
	gone := make([]bool, n)
	for _, m := range merges {
		if m.Dst < 0 || m.Src < 1 || int(m.Dst) >= n || int(m.Src) >= n || m.Dst == m.Src || gone[m.Dst] || gone[m.Src] {
			return false
		}
		gone[m.Src] = true
	}
	return len(merges) == max(n-1, 0)
}
