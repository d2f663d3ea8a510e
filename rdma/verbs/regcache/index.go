package regcache

import (
	"io"
	"slices"
	"sort"
)

// The index is sorted by start. No entry of it lies inside another, so it is
// sorted by end as well: among the entries that start at or before an address
// the last one reaches farthest, and what overlaps a range is contiguous.

// covering finds an entry for all of [start, end).
func (c *Cache[T]) covering(start, end uint64) *entry[T] {
	i := sort.Search(len(c.index), func(i int) bool { return c.index[i].start > start })
	if i == 0 || c.index[i-1].end < end {
		return nil
	}
	return c.index[i-1]
}

// insert puts a leased entry into the index, unless a larger one came first,
// and gives those that lay inside it and are leased by nobody, for dispose.
func (c *Cache[T]) insert(e *entry[T]) (unleased []*entry[T]) {
	if c.covering(e.start, e.end) != nil {
		return nil
	}
	first := sort.Search(len(c.index), func(i int) bool { return c.index[i].start >= e.start })
	last := first
	for last < len(c.index) && c.index[last].end <= e.end {
		last++
	}
	unleased = c.forget(first, last)
	c.index = slices.Insert(c.index, first, e)
	e.indexed = true
	delete(c.stale, e)
	return unleased
}

// forget takes entries out of the index: leased ones become stale, the others
// are given for dispose.
func (c *Cache[T]) forget(first, last int) (unleased []*entry[T]) {
	for _, e := range c.index[first:last] {
		e.indexed = false
		if e.refs > 0 {
			c.stale[e] = struct{}{}
			continue
		}
		c.idle.remove(e)
		unleased = append(unleased, e)
	}
	c.index = slices.Delete(c.index, first, last)
	return unleased
}

// overlapping is the part of the index that shares bytes with [start, end).
func (c *Cache[T]) overlapping(start, end uint64) (first, last int) {
	first = sort.Search(len(c.index), func(i int) bool { return c.index[i].end > start })
	last = first + sort.Search(len(c.index)-first, func(i int) bool { return c.index[first+i].start >= end })
	return first, last
}

// idleList holds entries in the order in which their last leases ended.
type idleList[T io.Closer] struct{ oldest, newest *entry[T] }

func (l *idleList[T]) push(e *entry[T]) {
	e.prev, e.next = l.newest, nil
	if l.newest == nil {
		l.oldest = e
	} else {
		l.newest.next = e
	}
	l.newest = e
}

func (l *idleList[T]) remove(e *entry[T]) {
	if e.prev == nil {
		l.oldest = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.newest = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}
