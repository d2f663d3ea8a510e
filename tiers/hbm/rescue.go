package hbm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/tiers"
)

// A device that fails takes what was changed on it with it. A Cache with a journal has these
// rows all the same: they are made again, from what the tier below has and what the journal
// says, on a stand-in in the host's memory, which takes the device's place with as few slots
// as the work under way wants. Rows keep their slots, so nobody who has pinned some sees it.
//
// Rows with a lifecycle are looked at below as they lie, for some that are pinned have ended, and brought up
// to date before the journal's turn, of which nothing is of before the last event (closeBooks).
//
// It is done where a call begins or has ended, never inside one, in which slots may be on
// their way.

// rescueWithin bounds how long the tier below may take to give some rows; rescueTries how often
// one is asked for whose read fails: it is the last chance of all that was on the device.
const (
	rescueWithin = 2 * time.Minute
	rescueTries  = 8
)

// ErrHangs marks a device that is not done in time: it may still write where it was told to, which
// is the arena's own memory.
var ErrHangs = errors.New("hbm: the card hangs")

// mayRescue says that a device's failure need not be the end.
func (c *Cache) mayRescue() bool {
	return c.failed != nil && c.journal != nil && c.lack == 0
}

// again says that the device has failed, and that a call that met it may be made again.
func (c *Cache) again() bool {
	if !c.mayRescue() {
		return false
	}
	failed, rows := c.failed, c.dirty
	if err := c.rescue(); err != nil {
		c.failed = fmt.Errorf("%w (and the rows on it cannot be made again: %w)", failed, err)
		_ = c.journal.close() // the error that matters is the device's
		c.journal = nil
		return false
	}
	failed = fmt.Errorf("%s has failed: %w", c.name, failed)
	c.stats.failed = failed.Error()
	if c.cfg.Lost != nil {
		c.cfg.Lost(rows, failed)
	}
	return true
}

// rescue puts a stand-in in the failed device's place.
func (c *Cache) rescue() error {
	c.callOff()
	play, live := c.inPlay()
	twin, buf, err := c.newTwin(play)
	if err != nil {
		return err
	}
	if err := c.fetch(twin, live); err != nil {
		return errors.Join(err, twin.Close())
	}
	spec := c.Spec()
	c.replayed = c.journal.replay(twin, c.isDirty, spec.PushFloats(), c.acc.RowFloats())
	old, written := c.dev, c.journal
	c.stats.times.add(old.Times())
	c.dev, c.buf, c.play, c.failed, c.journal = twin, buf, play, nil, nil
	_ = old.Close() // of what has failed: nothing of it is used any more
	_ = written.close()
	return nil
}

// inPlay drops the rows that the tier below has and nobody uses, and chooses the slots that
// are used from now on: the others, those that lookups under way have, and some free ones.
// live are those that have a row.
func (c *Cache) inPlay() (play, live []uint32) {
	isFree := make([]bool, len(c.keys))
	for _, s := range c.free {
		isFree[s] = true
	}
	for s, f := range c.flags {
		slot := uint32(s)
		switch {
		case f&flagLive == 0:
			if !isFree[s] {
				play = append(play, slot) // a lookup has it, for what is on its way
			}
		case c.pins[s] == 0 && f&flagDirty == 0:
			c.drop(slot)
		default:
			live = append(live, slot)
		}
	}
	play = append(play, live...)
	want := max(2*max(c.cfg.BatchRows, c.largest, c.most), c.reserved-c.idle)
	c.free = c.free[max(0, len(c.free)-want):]
	return append(play, c.free...), live
}

// fetch copies rows as the tier below has them to a stand-in.
func (c *Cache) fetch(to *standIn, live []uint32) error {
	most := min(bufferRows(c.Spec()), c.Most())
	width := c.acc.RowFloats()
	words := make([]float32, min(most, len(live))*width)
	tries := 0
	for end := time.Now().Add(rescueWithin); len(live) > 0; {
		some := live[:min(most, len(live))]
		look := &tiers.Lookup{Aside: true, AsIs: true, Rows: make([]uint32, len(some))}
		for _, s := range some {
			look.Keys = append(look.Keys, c.keys[s])
		}
		switch err := c.await(look, end); {
		case behind(err) && time.Now().Before(end): // others have most of its places, or disks are behind
			most = max(1, len(some)/2)
			c.letEarlyGo()
			time.Sleep(rescueNap)
			continue
		case err != nil && (len(some) > 1 || tries < rescueTries): // the others have been read next time, or it alone fails
			if most = max(1, len(some)/2); len(some) == 1 {
				tries++
			}
			time.Sleep(rescueNap)
			continue
		case err != nil:
			return err
		}
		tries = 0
		if i := slices.Index(look.Rows, noRow); i >= 0 {
			c.below.Release(look.Rows)
			return fmt.Errorf("hbm: table %q: the row of key %d is not in the tier below", c.Spec().Name, c.keys[some[i]])
		}
		c.below.Copy(look.Rows, words[:len(some)*width])
		c.below.Release(look.Rows)
		for i := range some { // one that has ended stays as it was: it is pinned, or what is written down has it born again
			c.acc.Settle(words[i*width : (i+1)*width])
		}
		to.CopyIn(some, words[:len(some)*width])
		live, end = live[len(some):], time.Now().Add(rescueWithin)
	}
	return nil
}

// await has a lookup done below. Others that end meanwhile are for the next Poll.
func (c *Cache) await(look *tiers.Lookup, end time.Time) error {
	if c.below.Start(look) {
		if behind(look.Err) {
			c.early = append(c.early, c.below.Poll()...)
		}
		return look.Err
	}
	for {
		for _, l := range c.below.Poll() {
			if l != look {
				c.early = append(c.early, l)
				continue
			}
			end = time.Time{}
		}
		switch {
		case end.IsZero():
			return look.Err
		case time.Now().After(end):
			return fmt.Errorf("hbm: table %q: the tier below has not given %d rows within %v", c.Spec().Name, len(look.Rows), rescueWithin)
		}
		time.Sleep(rescueNap)
	}
}

// letEarlyGo unpins below what lookups have found that ended while the device is replaced, as a
// rescue may want their places: they look again.
func (c *Cache) letEarlyGo() {
	for _, look := range c.early {
		if look.Err != nil {
			continue
		}
		if j, ok := look.Owner.(*job); ok && j.l != nil {
			j.l.Created += look.Created
		}
		c.below.Release(look.Rows)
		look.Err = tiers.ErrBusy
	}
}

const rescueNap = 100 * time.Microsecond
