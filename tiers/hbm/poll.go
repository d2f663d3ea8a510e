package hbm

import (
	"fmt"
	"slices"

	"psrt/tiers"
	"psrt/tiers/policy"
)

// aheadRows bounds the rows of one lookup below that are brought ahead, beside what a buffer has room for: each
// waits for copies once. Of the places below it pins an aheadShare-th, or as many as aheadKeys, which are sought
// here at a time.
const (
	aheadRows  = 2048
	aheadKeys  = 512
	aheadShare = 8
)

// ahead is how far rows have been brought ahead: all of batch up to the
// use at, and all before it.
type ahead struct {
	batch uint64
	at    uint32
	job   *job // under way below
	hush  bool // no other is begun: somebody waits for rows that one may pin below
}

func (c *Cache) isOpen() error {
	if c.closed {
		return fmt.Errorf("%w: %q", tiers.ErrClosed, c.Spec().Name)
	}
	return c.Failed()
}

// Failed says that the device has, and how, where its rows cannot be made again. What Apply refused since is not for its
// gradients, and what Gather gave no row's.
func (c *Cache) Failed() error {
	if c.failed == nil || c.again() {
		return nil
	}
	gap := ""
	if c.journal != nil && c.lack > 0 {
		gap = fmt.Sprintf("; of %d rows not all that was done to them there was written down: the tier below did not take them in time, or the journal was too small", c.lack)
	}
	return fmt.Errorf("hbm: table %q: %s has failed: %w%s", c.Spec().Name, c.name, c.failed, gap)
}

// Poll goes on with what the tier below has done.
func (c *Cache) Poll() []*tiers.Lookup {
	if c.closed {
		return nil
	}
	c.again()
	if c.pump(); c.again() {
		c.pump()
	}
	c.out = append(c.out[:0], c.ended...)
	clear(c.ended)
	c.ended = c.ended[:0]
	return c.out
}

// pump is Poll whose lookups wait to be given.
func (c *Cache) pump() {
	looks := c.below.Poll()
	if len(c.early) > 0 {
		looks, c.early = append(c.early, looks...), nil
	}
	for _, look := range looks {
		j, ok := look.Owner.(*job)
		if !ok || j.over { // a rescue's, that took too long
			continue
		}
		c.under--
		done := false
		if err := c.take(j); err != nil {
			done = c.hinder(j, err)
		} else {
			done = c.goOn(j)
		}
		c.end(j, done)
	}
	jobs := c.waiting
	c.waiting = nil
	for i, j := range jobs {
		done := c.goOn(j)
		c.end(j, done)
		if n := len(c.waiting); n > 0 && c.waiting[n-1] == j { // nor can those behind it
			c.waiting = append(c.waiting, jobs[i+1:]...)
			break
		}
	}
	c.bringAhead()
}

// end gives a job's lookup back.
func (c *Cache) end(j *job, done bool) {
	switch {
	case !done:
	case j.l != nil:
		c.ended = append(c.ended, j.l)
	case c.ahead.job == j:
		if c.ahead.job = nil; j.short {
			c.comeAgain(j)
		}
	}
}

// Announce notes what a batch will look up.
func (c *Cache) Announce(batch uint64, keys []uint64) {
	if c.closed {
		return
	}
	c.below.Announce(batch, keys)
	if c.belady != nil {
		if c.belady.Announce(batch, keys) > 0 && batch < c.ahead.batch {
			c.ahead.batch, c.ahead.at = batch, policy.NoUse
		}
		if j := c.ahead.job; j != nil && batch < j.batch {
			j.first = false
		}
		c.bringAhead()
	}
}

// Passed ends batches.
func (c *Cache) Passed(batch uint64) {
	if c.closed {
		return
	}
	c.below.Passed(batch)
	if c.belady != nil {
		c.belady.Passed(batch)
		c.ahead.batch, c.ahead.at, c.ahead.hush = 0, policy.NoUse, false
		c.bringAhead()
	}
}

// bringAhead copies rows of the next batches in that there are, in the place of
// rows used later.
func (c *Cache) bringAhead() {
	a := &c.ahead
	if c.belady == nil || c.failed != nil {
		return
	}
	if j := a.job; j != nil {
		if !j.leaves || !c.goOn(j) {
			return
		}
		if a.job = nil; !c.brought(j) {
			return
		}
	}
	begin, end := c.belady.Window()
	if a.batch < begin {
		a.batch, a.at = begin, policy.NoUse
	}
	for end = min(end, begin+uint64(c.cfg.Ahead)+1); a.batch < end; a.batch, a.at = a.batch+1, policy.NoUse {
		for c.room() > 0 && !a.hush {
			j := c.absent()
			if len(j.keys) == 0 {
				break
			}
			if c.promise(j) != nil {
				c.comeAgain(j)
				return
			}
			if !c.goOn(j) {
				a.job = j
				return
			}
			if !c.brought(j) {
				return
			}
		}
		if c.room() <= 0 || a.hush {
			return
		}
	}
}

// brought says whether more can be brought behind a job that has ended. If not, what it left out is sought once
// more, but not at once: rows that are nowhere would be sought for ever.
func (c *Cache) brought(j *job) bool {
	if j.short || j.err != nil && behind(j.err) {
		c.comeAgain(j)
		return false
	}
	return true
}

// absent makes a job of those that are not here of a batch's next rows, of none where there are none left.
// A batch is announced with a key once.
func (c *Cache) absent() *job {
	a := &c.ahead
	most := min(aheadRows, c.bufferRows(), max(aheadKeys, c.Most()/aheadShare), c.room())
	if c.coming == nil {
		c.coming = make([]uint64, aheadKeys)
	}
	j := &job{batch: a.batch, first: true, at: a.at, seen: c.occupied}
	for len(j.keys) < most {
		n, last := c.belady.Keys(a.batch, a.at, c.coming[:min(aheadKeys, most-len(j.keys))])
		if n == 0 {
			break
		}
		at := append(c.scratch.slots[:0], make([]uint32, n)...)
		c.scratch.slots = at
		c.index.Find(c.coming[:n], at)
		for i, s := range at {
			if s == noRow {
				j.keys = append(j.keys, c.coming[i])
			}
		}
		if a.at = last; len(j.keys) == 0 {
			j.at = last
		}
	}
	c.unknown(j)
	return j
}

// isComing says that rows are being brought ahead, so that they are pinned below for
// nobody; no others are until who asks has been here again.
func (c *Cache) isComing(keys []uint64) bool {
	c.ahead.hush = false
	j := c.ahead.job
	if j == nil {
		return false
	}
	c.ahead.hush = keys == nil || slices.ContainsFunc(keys, func(k uint64) bool { return slices.Contains(j.keys, k) })
	return c.ahead.hush
}
