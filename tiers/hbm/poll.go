package hbm

import (
	"fmt"
	"slices"

	"psrt/csrc/probe"
	"psrt/tiers"
	"psrt/tiers/policy"
)

// aheadRows bounds the rows of one lookup below that are brought ahead.
const aheadRows = 512

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
		c.ahead.job = nil
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

// notBefore chooses among rows that are used later than those brought ahead.
func (c *Cache) notBefore(may func(uint32) bool) (uint32, bool) {
	return c.belady.VictimAfter(c.ahead.batch, may)
}

// bringAhead copies rows of the next batches in that there are, in the place of
// rows used later.
func (c *Cache) bringAhead() {
	if c.belady == nil || c.ahead.job != nil || c.ahead.hush || c.failed != nil {
		return
	}
	a := &c.ahead
	begin, end := c.belady.Window()
	if a.batch < begin {
		a.batch, a.at = begin, policy.NoUse
	}
	if c.coming == nil {
		c.coming = make([]uint64, aheadRows)
	}
	for end = min(end, begin+uint64(c.cfg.Ahead)+1); a.batch < end; a.batch, a.at = a.batch+1, policy.NoUse {
		for {
			n, last := c.belady.Keys(a.batch, a.at, c.coming)
			if n == 0 {
				break
			}
			j := c.absent(c.coming[:n])
			if len(j.keys) > 0 && c.promise(j) != nil {
				return
			}
			done := len(j.keys) == 0 || c.goOn(j)
			if done && j.err != nil && behind(j.err) {
				return
			}
			if a.at = last; !done {
				a.job = j
				return
			}
		}
	}
}

// absent makes a job of those of some keys that are not here.
func (c *Cache) absent(some []uint64) *job {
	j := &job{occ: make([]int32, len(some)), keys: make([]uint64, len(some))}
	j.keys = j.keys[:probe.Dedup(&c.scratch.dedup, some, j.occ, j.keys)]
	at := append(c.scratch.slots[:0], make([]uint32, len(j.keys))...)
	c.scratch.slots = at
	c.index.Find(j.keys, at)
	n := 0
	for i, s := range at {
		if s == noRow {
			j.keys[n] = j.keys[i]
			n++
		}
	}
	j.keys = j.keys[:n]
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
