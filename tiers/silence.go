package tiers

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// silenceMost is how long a device may owe answers, if the user does not say.
const silenceMost = time.Minute

// silence has lookups that wait for disks fail when one of these says nothing for
// too long. What was asked of it stays asked: once it answers, rows are there as
// if nothing had been.
type silence struct {
	most  time.Duration
	armed atomic.Bool
	timer *time.Timer
}

// heed looks whether all devices answer, and has Poll called in time to look again.
func (d *Disks) heed() {
	if err := d.store.Silent(d.silence.most); err != nil {
		for _, t := range d.order {
			t.giveUp(err)
		}
	}
	d.listen()
}

// listen sets the clock, if there is something to wait for.
func (d *Disks) listen() {
	s := &d.silence
	if d.wake == nil || s.armed.Load() || !d.store.Owes() {
		return
	}
	s.armed.Store(true)
	s.timer = time.AfterFunc(s.most/4+time.Millisecond, func() {
		s.armed.Store(false)
		d.wake()
	})
}

func (s *silence) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// giveUp fails the lookups that wait.
func (t *Tiered) giveUp(err error) {
	if t.closed {
		return
	}
	for i := range t.loads {
		t.endWaiters(&t.loads[i], err)
	}
	for _, j := range t.jobs {
		if j.l.Err == nil {
			j.l.Err = err
		}
	}
}

// endWaiters has a load that has ended, or failed, off the lists of lookups.
func (t *Tiered) endWaiters(ld *load, err error) {
	for _, l := range ld.waiters {
		if l.Err == nil {
			l.Err = err
		}
		if l.left--; l.left == 0 && !l.parked {
			t.ended = append(t.ended, l)
		}
	}
	clear(ld.waiters)
	ld.waiters = ld.waiters[:0]
}

// wait waits for any device, but not longer than they may be silent.
func (l *logOnDisks) wait(until time.Time) error {
	most := time.Now().Add(l.d.silence.most)
	if until.Before(most) {
		most = until
	}
	err := l.d.store.Wait(most)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if silent := l.d.store.Silent(l.d.silence.most); silent != nil {
		return silent
	}
	if time.Now().Before(until) {
		return nil
	}
	return err
}
