package tiers

import (
	"errors"
	"fmt"
	"slices"

	"psrt/csrc/probe"
)

// job is what is left of a lookup whose rows are not all in memory: frames to
// be had for its missing keys.
type job struct {
	l    *Lookup
	keys []uint64 // distinct
	rows []uint32 // their frames, pinned once; noRow where there is none
	at   int      // keys before this one are done
	pos  []int32  // places of l.Rows that are missing
	occ  []int32  // and which of keys each wants
}

// Start looks l up. Rows in memory are pinned at once; if all are, it is done.
func (t *Tiered) Start(l *Lookup) bool {
	l.Created, l.Read, l.Err, l.left, l.parked = 0, 0, nil, 0, false
	if err := t.isClosed(); err != nil {
		l.Err = err
		return true
	}
	if len(l.Rows) < len(l.Keys) {
		l.Err = fmt.Errorf("tiers: table %q: lookup of %d keys with room for %d rows", t.spec.Name, len(l.Keys), len(l.Rows))
		return true
	}
	rows := l.Rows[:len(l.Keys)]
	t.flush() // another table's poll may have moved rows
	t.index.Find(l.Keys, rows)
	missing := t.scratch.at[:0]
	for i, v := range rows {
		switch {
		case v != noRow && v >= onFrame:
			f := v - onFrame
			rows[i] = f
			t.pinOne(f)
			t.lookedUp(l, f, l.Keys[i])
			c, at := t.led.at(f)
			if c.flags[at]&flagLoading != 0 {
				t.waitFor(f, l)
			}
		case v != noRow || l.Create:
			rows[i] = noRow
			missing = append(missing, int32(i))
		}
	}
	t.scratch.at = missing
	t.stats.Hits += uint64(len(rows) - len(missing))
	t.stats.Misses += uint64(len(missing))
	if len(missing) == 0 {
		if t.room() < 0 { // frames promised to others
			t.abandon(l, nil, ErrPinned)
			return true
		}
		return t.isDone(l)
	}
	j := t.newJob(l, missing)
	if err := t.roomFor(j, rows); err != nil {
		t.abandon(l, nil, err)
		return true
	}
	t.reserved += len(j.keys)
	done := t.fill(j)
	if done {
		j.l, t.spare = nil, j
	} else {
		l.parked = true
		t.jobs = append(t.jobs, j)
		t.wake() // what it waits for may not be the disk
	}
	t.makeRoom()
	t.flush()
	t.submit()
	return done && t.isDone(l)
}

// isDone says that Start has nothing to wait for.
func (t *Tiered) isDone(l *Lookup) bool {
	if l.left > 0 {
		return false
	}
	if l.Err == nil {
		t.ready(l)
	}
	return true
}

// ready has the rows of a lookup, all in memory and pinned, be its user's.
func (t *Tiered) ready(l *Lookup) {
	t.Renumber(l.Rows[:len(l.Keys)])
	if !l.AsIs {
		t.refresh(l, len(l.Keys))
	}
}

// newJob copies what is needed of a lookup's missing keys.
func (t *Tiered) newJob(l *Lookup, missing []int32) *job {
	s := &t.scratch
	s.keys = s.keys[:0]
	for _, i := range missing {
		s.keys = append(s.keys, l.Keys[i])
	}
	n := len(s.keys)
	j := t.spare
	if t.spare = nil; j == nil {
		j = &job{}
	}
	j.l, j.at, j.pos = l, 0, append(j.pos[:0], missing...)
	j.occ, j.keys = slices.Grow(j.occ[:0], n)[:n], slices.Grow(j.keys[:0], n)[:n]
	j.keys = j.keys[:probe.Dedup(&s.dedup, s.keys, j.occ, j.keys)]
	j.rows = j.rows[:0]
	for range j.keys {
		j.rows = append(j.rows, noRow)
	}
	return j
}

// roomFor says why there are not enough frames for a job.
func (t *Tiered) roomFor(j *job, rows []uint32) error {
	if t.room() >= len(j.keys) {
		return nil
	}
	most := t.Most()
	hits := map[uint32]bool{}
	for _, f := range rows {
		if f != noRow {
			hits[f] = true
		}
	}
	if n := len(hits) + len(j.keys); n > most {
		return fmt.Errorf("%w: table %q: a lookup of %d rows, %d fit in memory; use smaller batches or more memory", ErrBudget, t.spec.Name, n, most)
	}
	if t.drain.on && t.drain.failed != nil {
		return t.drain.failed // what it would give is not to be had
	}
	return ErrPinned
}

// fill gets frames for a job's keys, and ends it unless the disk is too busy
// to take rows; then it is to be called again.
func (t *Tiered) fill(j *job) (done bool) {
	if j.l.Err != nil {
		t.reserved -= len(j.keys) - j.at
		t.abandon(j.l, j, j.l.Err)
		return true
	}
	keys := j.keys[j.at:]
	s := &t.scratch
	t.flush()
	s.vals = append(s.vals[:0], make([]uint32, len(keys))...)
	t.index.Find(keys, s.vals)
	for i, v := range s.vals {
		err := t.fillOne(j, keys[i], v)
		if errors.Is(err, ErrBusy) {
			t.flush()
			return false
		}
		t.reserved--
		j.at++
		if err != nil {
			t.flush()
			t.reserved -= len(j.keys) - j.at
			t.abandon(j.l, j, err)
			return true
		}
	}
	t.flush()
	t.scatter(j)
	return true
}

// fillOne brings one key, which is at v, into j.rows[j.at].
func (t *Tiered) fillOne(j *job, key uint64, v uint32) error {
	if v != noRow && v >= onFrame && !t.holds(v-onFrame, key) { // it has left for the keys before it
		v = t.find(key)
	}
	switch {
	case v == noRow && !j.l.Create: // deleted meanwhile
		return nil
	case v != noRow && v >= onFrame: // brought by another lookup
		f := v - onFrame
		t.pinOne(f)
		t.lookedUp(j.l, f, key)
		j.rows[j.at] = f
		c, i := t.led.at(f)
		if c.flags[i]&flagLoading != 0 {
			t.waitFor(f, j.l)
		}
		return nil
	}
	if v == noRow && !t.acc.Admit(key) {
		return nil
	}
	if v == noRow {
		f, err := t.take()
		if err != nil {
			return err
		}
		return t.create(j, f, key)
	}
	f, err := t.takeToRead()
	if err != nil {
		return err
	}
	t.read(f, key, v, 1)
	j.l.Read++
	if j.l.Ahead {
		t.stats.PrefetchedRows++
	} else {
		t.stats.SyncReads++
	}
	t.cameFor(j.l, f, key)
	j.rows[j.at] = f
	t.waitFor(f, j.l)
	return nil
}

// holds says whether a key's row is in a frame.
func (t *Tiered) holds(f uint32, key uint64) bool {
	c, i := t.led.at(f)
	return c != nil && c.flags[i]&flagLive != 0 && c.keys[i] == key
}

// create makes a row in a frame.
func (t *Tiered) create(j *job, f uint32, key uint64) error {
	if err := t.setNew(key, f); err != nil {
		t.giveBack(f)
		return err
	}
	t.scratch.key[0] = key
	t.acc.Born(key, t.row(f))
	t.acc.Begin(&t.rows, int(f), t.scratch.key[:])
	t.occupy(f, key, flagDirty|markChanged, noSlot, 1)
	t.cameFor(j.l, f, key)
	j.rows[j.at] = f
	j.l.Created++
	t.ahead.made()
	return nil
}

// scatter writes a job's frames to the lookup, and pins a row once for each
// place that wants it.
func (t *Tiered) scatter(j *job) {
	t.Renumber(j.rows)
	for i, at := range j.pos {
		f := j.rows[j.occ[i]]
		j.l.Rows[at] = f
		if f != noRow {
			t.pinOne(f)
		}
	}
	t.Release(j.rows)
}

// abandon ends a lookup, of which j is left if not nil, with an error: nothing
// stays pinned. Loads that it waits for take it off their lists.
func (t *Tiered) abandon(l *Lookup, j *job, err error) {
	l.Err = err
	t.Release(l.Rows[:len(l.Keys)])
	if j != nil {
		t.Release(j.rows)
	}
	for i := range l.Rows[:len(l.Keys)] {
		l.Rows[i] = noRow
	}
	if l.left > 0 {
		t.forget(l)
		l.left = 0
	}
}

// goOn tries jobs again, in order.
func (t *Tiered) goOn() {
	for len(t.jobs) > 0 {
		j := t.jobs[0]
		if !t.fill(j) {
			return
		}
		t.jobs = append(t.jobs[:0], t.jobs[1:]...)
		j.l.parked = false
		if j.l.left == 0 {
			t.ended = append(t.ended, j.l)
		}
	}
}
