package span

import (
	"iter"
	"slices"
)

// entry is [start, start+size).
type entry[T comparable] struct {
	start, size uint64
	// reach is the largest end of this entry and all before it: ranges may
	// overlap, and it tells a lookup where to stop.
	reach uint64
	value T
}

// Set is a set of address ranges with a value each. The zero value is empty.
// It is never changed, so any goroutine may read it.
type Set[T comparable] struct{ entries []entry[T] }

// With is s and one more range. A range that wraps around the end of the
// address space is cut there.
func (s *Set[T]) With(start, size uint64, value T) *Set[T] {
	n := &Set[T]{entries: slices.Clone(s.entries)}
	at, _ := slices.BinarySearchFunc(n.entries, start, func(e entry[T], start uint64) int {
		if e.start <= start {
			return -1
		}
		return 1
	})
	n.entries = slices.Insert(n.entries, at, entry[T]{start: start, size: min(size, -start-1), value: value})
	n.index()
	return n
}

// Without is s less every range of value.
func (s *Set[T]) Without(value T) *Set[T] {
	n := &Set[T]{entries: slices.DeleteFunc(slices.Clone(s.entries), func(e entry[T]) bool { return e.value == value })}
	n.index()
	return n
}

func (s *Set[T]) index() {
	var reach uint64
	for i := range s.entries {
		reach = max(reach, s.entries[i].start+s.entries[i].size)
		s.entries[i].reach = reach
	}
}

// Find gives the value of a range around [start, start+n): where several are,
// the one that starts last.
func (s *Set[T]) Find(start, n uint64) (value T, ok bool) {
	lo, hi := 0, len(s.entries)
	for lo < hi {
		if mid := (lo + hi) / 2; s.entries[mid].start <= start {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= 0 && s.entries[i].reach >= start; i-- {
		e := &s.entries[i]
		if at := start - e.start; at <= e.size && n <= e.size-at {
			return e.value, true
		}
	}
	return value, false
}

// All yields the values in the order of their ranges.
func (s *Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range s.entries {
			if !yield(s.entries[i].value) {
				return
			}
		}
	}
}
