package hbm

import (
	"errors"
	"fmt"
	"slices"

	"psrt/csrc/probe"
	"psrt/tiers"
)

// job is a lookup whose rows are not all here.
type job struct {
	l     *tiers.Lookup // nil: rows are brought ahead
	over  bool          // nobody waits for it any more
	err   error         // why
	keys  []uint64      // distinct
	slots []uint32      // their slots, pinned once; noRow where there is none, or none yet
	known []bool        // that is so: it was found, or there is no row
	occ   []int32       // which of keys each place of l.Rows wants
	spare []uint32      // empty slots that it has

	promised int    // slots
	seen     uint64 // c.occupied, when it looked for its keys here
	leaves   bool   // it waits for rows to leave
	short    bool   // it does not bring all
	first    bool   // no batch before j.batch is known to use its rows
	batch    uint64 // whose rows are brought ahead, those behind the use at
	at       uint32
	look     tiers.Lookup
	want     []int32 // of keys, sought below
}

// Start looks l up. Rows here are pinned at once; if all are, it is done.
func (c *Cache) Start(l *tiers.Lookup) bool {
	l.Created, l.Err, l.Gathered = 0, nil, false
	if l.Err = c.isOpen(); l.Err != nil {
		return true
	}
	if len(l.Rows) < len(l.Keys) {
		l.Err = fmt.Errorf("hbm: table %q: lookup of %d keys with room for %d rows", c.Spec().Name, len(l.Keys), len(l.Rows))
		return true
	}
	c.largest = max(c.largest, len(l.Keys))
	rows := l.Rows[:len(l.Keys)]
	if c.seek(l, rows) != nil {
		if c.again() {
			return c.Start(l)
		}
		c.fail(l, c.Failed())
		return true
	}
	missing := lacking(rows)
	if j := c.ahead.job; missing > 0 && j != nil && j.leaves { // they may be what is brought
		c.bringAhead()
		c.index.Find(l.Keys, rows)
		missing, l.Gathered = lacking(rows), false
	}
	c.stats.hits += uint64(len(rows) - missing)
	c.stats.misses += uint64(missing)
	if l.Into != nil {
		c.partial = missing > 0
	}
	l.Gathered = l.Gathered && missing == 0 && !slices.ContainsFunc(rows, func(s uint32) bool { return c.flags[s]&flagStale != 0 })
	if missing == 0 {
		for i, s := range rows {
			c.pin(s)
			c.policy.Touch(s, l.Keys[i])
		}
		if c.room() < 0 {
			c.callOff()
		}
		if c.room() < 0 { // slots promised to others
			c.Release(rows)
			c.fail(l, tiers.ErrPinned)
			return true
		}
		c.refresh(l, len(rows))
		if l.Err != nil && c.again() {
			reborn := l.Created
			done := c.Start(l)
			l.Created += reborn
			return done
		}
		return true
	}
	j := c.newJob(l)
	if err := c.promise(j); err != nil {
		c.fail(l, err)
		return true
	}
	return c.goOn(j)
}

// lacking counts those that are none.
func lacking(rows []uint32) (n int) {
	for _, s := range rows {
		if s == noRow {
			n++
		}
	}
	return n
}

// seek finds the rows of a lookup that are here: where the device is to gather them, too,
// it does both in one go, unless rows were missing the last time, for then it might
// gather for nothing.
func (c *Cache) seek(l *tiers.Lookup, rows []uint32) error {
	if l.Into == nil || c.partial || len(rows) == 0 {
		c.index.Find(l.Keys, rows)
		return nil
	}
	l.Gathered = true
	return c.wait(c.dev.Find(l.Keys, rows, l.Into, c.Spec().Dim))
}

// fail ends a lookup that has nothing pinned.
func (c *Cache) fail(l *tiers.Lookup, err error) {
	l.Err, l.Gathered = err, false
	for i := range l.Rows[:len(l.Keys)] {
		l.Rows[i] = noRow
	}
}

func (c *Cache) newJob(l *tiers.Lookup) *job {
	n := len(l.Keys)
	j := &job{l: l, occ: make([]int32, n), keys: make([]uint64, n)}
	j.keys = j.keys[:probe.Dedup(&c.scratch.dedup, l.Keys, j.occ, j.keys)]
	c.unknown(j)
	return j
}

func (c *Cache) unknown(j *job) {
	j.slots, j.known = make([]uint32, len(j.keys)), make([]bool, len(j.keys))
	for i := range j.slots {
		j.slots[i] = noRow
	}
}

// promise pins what is here of a job's keys, and has slots kept for the others; or
// it says why there are not enough.
func (c *Cache) promise(j *job) error {
	c.hold(j)
	lacking := lacking(j.slots)
	if j.l != nil && c.room() < lacking {
		c.callOff()
	}
	if c.room() >= lacking {
		j.promised = lacking
		c.reserved += lacking
		c.most = max(c.most, c.size()-c.room())
		return nil
	}
	c.letGo(j)
	n := len(j.keys)
	switch {
	case n > len(c.keys):
		return fmt.Errorf("%w: table %q: a lookup of %d rows, %d fit into the device's memory; use smaller batches or raise --hbm-budget",
			ErrSmall, c.Spec().Name, n, len(c.keys))
	case j.l != nil && n > c.size():
		if err := c.grow(n); err != nil {
			return fmt.Errorf("%w: table %q: a lookup of %d rows, %d fit into the memory that has the failed device's place, and it cannot be more: %w; use smaller batches",
				ErrSmall, c.Spec().Name, n, c.size(), err)
		}
		return c.promise(j)
	}
	return tiers.ErrPinned
}

// hold pins the rows of a job that are here.
func (c *Cache) hold(j *job) {
	if j.seen == c.occupied {
		return
	}
	j.seen = c.occupied
	at := append(c.scratch.slots[:0], make([]uint32, len(j.keys))...)
	c.scratch.slots = at
	c.index.Find(j.keys, at)
	for i, s := range at {
		if j.slots[i] == noRow && s != noRow {
			j.slots[i], j.known[i] = s, true
			c.pin(s)
			c.policy.Touch(s, j.keys[i])
		}
	}
}

// letGo unpins what a job has.
func (c *Cache) letGo(j *job) {
	c.Release(j.slots)
	c.free = append(c.free, j.spare...)
	c.reserved -= j.promised
	j.spare, j.promised, j.seen = nil, 0, 0
	for i := range j.slots {
		j.slots[i] = noRow
	}
}

// goOn brings a job to its end, with an error or without; false: it waits.
func (c *Cache) goOn(j *job) (done bool) {
	for {
		c.hold(j)
		err := c.prepare(j)
		if j.leaves = err == errLeaves; j.leaves {
			return false
		}
		if err != nil {
			return c.hinder(j, err)
		}
		if len(j.want) == 0 {
			return c.finish(j)
		}
		j.look = tiers.Lookup{Keys: j.look.Keys[:0], Rows: make([]uint32, len(j.want)), Create: j.l != nil && j.l.Create, Ahead: j.l == nil, Owner: j}
		j.look.Keys = slices.Grow(j.look.Keys, len(j.want))
		for _, i := range j.want {
			j.look.Keys = append(j.look.Keys, j.keys[i])
		}
		if !c.below.Start(&j.look) {
			c.under++
			return false
		}
		if err := c.take(j); err != nil {
			return c.hinder(j, err)
		}
	}
}

// hinder has a job wait where the tier below is behind, and ends it with an error
// otherwise.
func (c *Cache) hinder(j *job, err error) (done bool) {
	// What is pinned below is of lookups of this table, and goes by; else it is the
	// caller's affair.
	// A device that has failed may have somebody take its place when this call is over.
	if errors.Is(err, tiers.ErrBusy) || errors.Is(err, tiers.ErrPinned) && c.under > 0 || c.mayRescue() {
		if j.l != nil {
			c.waiting = append(c.waiting, j)
			return false
		}
	}
	c.letGo(j)
	if j.l != nil {
		c.fail(j.l, err)
	}
	j.over, j.err = true, err
	return true
}

// prepare finds what is to be asked below, and has empty slots for it.
func (c *Cache) prepare(j *job) error {
	j.want = slices.Grow(j.want[:0], len(j.keys))
	for i := range j.keys {
		if !j.known[i] {
			j.want = append(j.want, int32(i))
		}
	}
	lacking := len(j.want)
	for len(j.spare) > lacking { // others have brought rows
		n := len(j.spare) - 1
		c.free = append(c.free, j.spare[n])
		j.spare = j.spare[:n]
	}
	c.reserved -= j.promised
	j.promised = lacking - len(j.spare)
	c.reserved += j.promised
	if j.promised == 0 {
		return nil
	}
	err := c.empty(j.promised, j)
	n := len(c.free) - min(j.promised, len(c.free))
	j.spare = append(j.spare, c.free[n:]...)
	c.reserved -= len(c.free) - n
	j.promised -= len(c.free) - n
	c.free = c.free[:n]
	if j.l == nil && err == tiers.ErrPinned && len(j.spare) > 0 {
		c.curtail(j)
		return nil
	}
	return err
}

// curtail has a job bring as many rows as it has slots for: there are no more victims. The others are sought
// again.
func (c *Cache) curtail(j *job) {
	n := len(j.spare)
	for _, i := range j.want[n:] {
		j.known[i] = true
	}
	j.want = j.want[:n]
	c.reserved -= j.promised
	j.promised, j.short = 0, true
}

// take brings what was found below to its slots.
func (c *Cache) take(j *job) error {
	if j.look.Err != nil {
		return j.look.Err
	}
	if j.l != nil {
		j.l.Created += j.look.Created
	}
	c.hold(j)
	c.fetchBuckets(j.look.Keys)
	defer c.below.Release(j.look.Rows)
	slots, rows := make([]uint32, 0, len(j.want)), make([]uint32, 0, len(j.want))
	for at, i := range j.want {
		if j.known[i] { // another lookup has brought it, and it may be newer
			continue
		}
		r := j.look.Rows[at]
		if r != noRow {
			n := len(j.spare) - 1
			s := j.spare[n]
			if err := c.occupy(s, j.keys[i], j); err != nil {
				return errors.Join(err, c.copyIn(slots, rows))
			}
			j.spare, j.slots[i] = j.spare[:n], s
			slots, rows = append(slots, s), append(rows, r)
		}
		j.known[i] = true
	}
	j.seen = c.occupied // since hold by itself alone
	if j.l == nil {
		c.stats.ahead += uint64(len(slots))
	}
	return c.copyIn(slots, rows)
}

// copyIn copies rows of the tier below into slots.
func (c *Cache) copyIn(slots, rows []uint32) error {
	most := c.bufferRows()
	for len(slots) > 0 {
		n := min(len(slots), most)
		b, words, err := c.buffer(n)
		if err != nil {
			return err
		}
		c.below.Copy(rows[:n], words)
		b.used = c.copyTo(slots[:n], words)
		slots, rows = slots[n:], rows[n:]
	}
	return nil
}

// finish gives a job's slots to its lookup; false: it waits for somebody to take a failed device's place.
func (c *Cache) finish(j *job) (done bool) {
	if j.l != nil {
		for i, k := range j.occ {
			s := j.slots[k]
			j.l.Rows[i] = s
			if s != noRow {
				c.pin(s)
			}
		}
		c.refresh(j.l, len(j.occ))
		if j.l.Err != nil && c.mayRescue() {
			j.l.Err = nil
			c.waiting = append(c.waiting, j)
			return false
		}
	}
	c.letGo(j)
	j.over = true
	return true
}
