package ledger

import (
	"fmt"
	"slices"
)

// Grant is a range: number Range of file File, both from 0.
type Grant struct {
	File  int   `json:"file"`
	Range int64 `json:"range"`
}

// Ledger is the book of one pass.
type Ledger struct {
	Files   int      `json:"files"`
	Begun   int      `json:"begun"`          // files that somebody has begun, the first
	Open    []Grant  `json:"open,omitempty"` // the next range of each that is not known to have ended
	Workers []Worker `json:"workers"`
}

// Worker is what one was given.
type Worker struct {
	Given int   `json:"given"` // ranges
	Last  Grant `json:"last"`  // of them
}

// New is the book of a pass over so many files.
func New(files, workers int) *Ledger {
	return &Ledger{Files: files, Workers: make([]Worker, workers)}
}

// Check says whether a book from outside is one of so many files and workers.
func (l *Ledger) Check(files, workers int) error {
	if l.Files != files || len(l.Workers) != workers {
		return fmt.Errorf("ledger: the book has %d files for %d workers, this worker sees %d and %d: every host must reach the same files under the same names", l.Files, len(l.Workers), files, workers)
	}
	bad := l.Begun < 0 || l.Begun > l.Files
	for _, g := range l.Open {
		bad = bad || g.File < 0 || g.File >= l.Begun || g.Range < 1
	}
	for _, w := range l.Workers {
		bad = bad || w.Given < 0 || w.Given > 0 && (w.Last.File < 0 || w.Last.File >= l.Begun)
	}
	if bad {
		return fmt.Errorf("ledger: a book that does not agree with itself: %+v", *l)
	}
	return nil
}

// Take gives a worker its range number n, and says whether there is one. ended: the
// file of the one before has ended.
func (l *Ledger) Take(worker, n int, ended bool) (g Grant, ok bool, err error) {
	if worker < 0 || worker >= len(l.Workers) {
		return g, false, fmt.Errorf("ledger: worker %d of %d", worker, len(l.Workers))
	}
	w := &l.Workers[worker]
	switch {
	case n >= 0 && n == w.Given-1:
		return w.Last, true, nil
	case n != w.Given:
		return g, false, fmt.Errorf("ledger: worker %d asks for its range %d, and has been given %d", worker, n, w.Given)
	}
	if ended && n > 0 {
		l.Open = slices.DeleteFunc(l.Open, func(o Grant) bool { return o.File == w.Last.File })
	}
	i := -1
	if n > 0 {
		i = slices.IndexFunc(l.Open, func(o Grant) bool { return o.File == w.Last.File })
	}
	if i < 0 && l.Begun < l.Files {
		l.Open = append(l.Open, Grant{File: l.Begun})
		i, l.Begun = len(l.Open)-1, l.Begun+1
	}
	if i < 0 {
		i = l.emptiest()
	}
	if i < 0 {
		return g, false, nil
	}
	g = l.Open[i]
	l.Open[i].Range++
	w.Given, w.Last = w.Given+1, g
	return g, true, nil
}

// emptiest is the place in Open of the file in which the fewest workers are, -1 for
// none.
func (l *Ledger) emptiest() int {
	best, least := -1, 0
	for i, o := range l.Open {
		in := 0
		for _, w := range l.Workers {
			if w.Given > 0 && w.Last.File == o.File {
				in++
			}
		}
		if best < 0 || in < least {
			best, least = i, in
		}
	}
	return best
}
