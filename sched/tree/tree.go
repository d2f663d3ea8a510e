package tree

import (
	"fmt"
	"math/bits"
)

const (
	// MaxMicro is the largest leaf: enough rows for a matrix product to run at
	// full speed, few enough that a leaf's activations stay in cache.
	MaxMicro = 512
	// MinLeaves is how many leaves a batch has at least (if it has as many
	// examples), and so how many workers it can occupy.
	MinLeaves = 8
)

// Merge is one addition: x[Dst] = x[Dst] (+) x[Src], where absent (+) y = y
// and y (+) absent = y.
type Merge struct{ Dst, Src int32 }

// Share is the leaves First <= j < Last.
type Share struct{ First, Last int }

// Len is the number of leaves.
func (s Share) Len() int { return s.Last - s.First }

// Leaves cuts a global batch of examples into leaves of micro examples (the
// last may be shorter). It depends on the batch alone. A batch below 1 has no
// leaves.
func Leaves(batch int) (micro, leaves int) {
	if batch < 1 {
		return 0, 0
	}
	micro = min(MaxMicro, (batch-1)/MinLeaves+1)
	return micro, (batch-1)/micro + 1
}

// split is where the tree over n > 1 leaves parts: the largest power of two
// below n.
func split(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// Shares deals leaves out to workers: the largest subtree is split until there
// are as many as workers, the leftmost of equals first. Shares come in leaf
// order; worker w has shares[w].
func Shares(leaves, workers int) ([]Share, error) {
	if leaves < 1 || workers < 1 {
		return nil, fmt.Errorf("tree: %d leaves for %d workers, want at least 1 of each", leaves, workers)
	}
	if workers > leaves {
		return nil, fmt.Errorf("tree: %d workers share a batch of %d micro-batches; use at most %d workers or a larger batch",
			workers, leaves, leaves)
	}
	shares := make([]Share, 1, workers)
	shares[0] = Share{0, leaves}
	for len(shares) < workers {
		big := 0
		for i, s := range shares {
			if s.Len() > shares[big].Len() {
				big = i
			}
		}
		s := shares[big]
		mid := s.First + split(s.Len())
		shares = append(shares, Share{})
		copy(shares[big+1:], shares[big:])
		shares[big], shares[big+1] = Share{s.First, mid}, Share{mid, s.Last}
	}
	return shares, nil
}

// Merges is the order of the additions inside the share first <= j < last,
// which must be one whole subtree (any share of Shares is, and 0..leaves).
// Leaf j is x[j-first]; the sum ends in x[0].
func Merges(first, last int) []Merge {
	n := last - first
	if n < 2 {
		return nil
	}
	return appendMerges(make([]Merge, 0, n-1), 0, n)
}

func appendMerges(m []Merge, first, n int) []Merge {
	if n < 2 {
		return m
	}
	k := split(n)
	m = appendMerges(m, first, k)
	m = appendMerges(m, first+k, n-k)
	return append(m, Merge{int32(first), int32(first + k)})
}

// Top is the order of the additions above the shares: worker w's sum is x[w],
// the whole ends in x[0]. The shares must be those of one tree, as Shares
// makes them.
func Top(shares []Share) ([]Merge, error) {
	if len(shares) == 0 {
		return nil, fmt.Errorf("tree: no shares to merge")
	}
	t := top{shares: shares, merges: make([]Merge, 0, len(shares)-1)}
	if _, ok := t.walk(0, shares[len(shares)-1].Last); !ok || t.next != len(shares) {
		return nil, fmt.Errorf("tree: share %d of %v is not a whole subtree; make shares with Shares", t.next, shares)
	}
	return t.merges, nil
}

type top struct {
	shares []Share
	merges []Merge
	next   int // share to meet next
}

// walk covers the subtree of leaves first..last-1 and returns the worker whose
// slot holds its sum.
func (t *top) walk(first, last int) (worker int, ok bool) {
	if t.next >= len(t.shares) {
		return 0, false
	}
	if t.shares[t.next] == (Share{first, last}) {
		t.next++
		return t.next - 1, true
	}
	if last-first < 2 {
		return 0, false
	}
	mid := first + split(last-first)
	l, ok := t.walk(first, mid)
	if !ok {
		return 0, false
	}
	r, ok := t.walk(mid, last)
	if !ok {
		return 0, false
	}
	t.merges = append(t.merges, Merge{int32(l), int32(r)})
	return l, true
}
