package member

import "fmt"

// FileRange is a part of one file: rows that begin in From <= byte < To.
type FileRange struct {
	File     int
	From, To int64
}

// CutFiles cuts files into ranges: about each per worker, of at least least bytes,
// so that one file serves many workers and none waits long for the last range.
// Precondition: workers, each, least >= 1.
func CutFiles(sizes []int64, workers, each int, least int64) []FileRange {
	var total int64
	for _, n := range sizes {
		total += n
	}
	size := max(least, (total+int64(workers*each)-1)/int64(workers*each))
	var all []FileRange
	for f, n := range sizes {
		for at := int64(0); at < n; at += size {
			all = append(all, FileRange{f, at, min(n, at+size)})
		}
	}
	return all
}

// Ledger deals one epoch's ranges out. A range is a stream of pushes of its own:
// batch k of it is push k, whoever sends it, so that the servers' tables count every
// batch once though a worker died with some of it under way. It is changed by ordered
// ops alone, and equal for all who see the same order.
type Ledger struct {
	ranges []entry
	left   int
}

type entry struct {
	owner int // -1: nobody
	gen   uint64
	done  uint64 // batches that are acknowledged by every group
	over  bool
}

// NewLedger deals n ranges.
func NewLedger(n int) *Ledger {
	l := &Ledger{ranges: make([]entry, n), left: n}
	for i := range l.ranges {
		l.ranges[i].owner = -1
	}
	return l
}

// Left is how many ranges are not over.
func (l *Ledger) Left() int { return l.left }

// Take gives a worker a range: the one that it has, else the first that nobody has.
// It goes on after batch done; gen is its claim on it, and the client of the
// range's pushes.
func (l *Ledger) Take(worker int) (n int, done, gen uint64, ok bool) {
	free := -1
	for i := range l.ranges {
		switch e := &l.ranges[i]; {
		case e.over:
		case e.owner == worker:
			return i, e.done, e.gen, true
		case e.owner < 0 && free < 0:
			free = i
		}
	}
	if free < 0 {
		return 0, 0, 0, false
	}
	e := &l.ranges[free]
	e.owner = worker
	e.gen++
	return free, e.done, e.gen, true
}

// Done notes that batches up to done are acknowledged, and with over that there are
// no more. A claim that was taken away changes nothing.
func (l *Ledger) Done(n int, gen, done uint64, over bool) error {
	if n < 0 || n >= len(l.ranges) {
		return fmt.Errorf("member: range %d of %d", n, len(l.ranges))
	}
	e := &l.ranges[n]
	if e.over && e.gen == gen {
		return nil // said again
	}
	if e.owner < 0 || e.gen != gen {
		return fmt.Errorf("member: range %d is not claimed by generation %d; its worker was given up", n, gen)
	}
	e.done = max(e.done, done)
	if over {
		e.over, e.owner = true, -1
		l.left--
	}
	return nil
}

// Leave gives what a worker has to others.
func (l *Ledger) Leave(worker int) {
	for i := range l.ranges {
		if e := &l.ranges[i]; e.owner == worker && !e.over {
			e.owner = -1
		}
	}
}
