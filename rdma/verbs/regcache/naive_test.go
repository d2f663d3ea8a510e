package regcache

import "slices"

// naive is the same cache for one goroutine, by scans over one list.
type naive struct {
	pages      uint64
	count      int
	clock      int
	list       []*naiveEntry // in the order of registration
	registered int
}

type naiveEntry struct {
	start, end uint64 // pages
	refs       int
	usable     bool
	idleSince  int
}

// get answers nil where the real one answers a FullError.
func (n *naive) get(start, end uint64, refused bool) (e *naiveEntry, full bool) {
	for _, x := range n.list {
		if x.usable && x.start <= start && end <= x.end && (e == nil || x.start > e.start) {
			e = x
		}
	}
	if e != nil {
		e.refs++
		return e, false
	}
	var busyPages uint64
	busy := 0
	for _, x := range n.list {
		if x.refs > 0 {
			busyPages += x.end - x.start
			busy++
		}
	}
	if busyPages+end-start > n.pages || busy+1 > n.count {
		return nil, true
	}
	for n.sum()+end-start > n.pages || len(n.list)+1 > n.count {
		var oldest *naiveEntry
		for _, x := range n.list {
			if x.refs == 0 && (oldest == nil || x.idleSince < oldest.idleSince) {
				oldest = x
			}
		}
		oldest.usable = false
		n.sweep()
	}
	if refused {
		return nil, false
	}
	n.registered++
	e = &naiveEntry{start: start, end: end, refs: 1, usable: true}
	for _, x := range n.list {
		if start <= x.start && x.end <= end {
			x.usable = false
		}
	}
	n.list = append(n.list, e)
	n.sweep()
	return e, false
}

func (n *naive) release(e *naiveEntry) {
	n.clock++
	e.refs--
	e.idleSince = n.clock
	n.sweep()
}

func (n *naive) invalidate(start, end uint64) (busy int) {
	for _, x := range n.list {
		if x.start < end && start < x.end {
			x.usable = false
			if x.refs > 0 {
				busy++
			}
		}
	}
	n.sweep()
	return busy
}

// sweep drops what is neither usable nor leased.
func (n *naive) sweep() {
	n.list = slices.DeleteFunc(n.list, func(x *naiveEntry) bool { return !x.usable && x.refs == 0 })
}

func (n *naive) sum() (pages uint64) {
	for _, x := range n.list {
		pages += x.end - x.start
	}
	return pages
}
