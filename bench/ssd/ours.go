package ssd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/tiers"
)

// ours is a table as one lane has it: one goroutine that never waits for a disk
// while another batch can go on.
type ours struct {
	c     *Config
	rows  tiers.Rows
	disks *tiers.Disks
	wake  <-chan struct{} // something may have ended
	free  []*flight
	asked uint64
}

// flight is one batch under way.
type flight struct {
	lookup tiers.Lookup
	batch  int
	rows   []uint32
}

// stall is how long a disk may say nothing.
const stall = time.Minute

func newOurs(c *Config, rows tiers.Rows, wake <-chan struct{}) *ours {
	o := &ours{c: c, rows: rows, wake: wake}
	for range c.InFlight {
		o.free = append(o.free, &flight{rows: make([]uint32, c.Keys)})
	}
	return o
}

func (o *ours) name() string { return "psrt" }

func (o *ours) wait(ctx context.Context) error {
	t := time.NewTimer(stall)
	defer t.Stop()
	select {
	case <-o.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return fmt.Errorf("ssd: no disk has answered for %v", stall)
	}
}

func (o *ours) fill(first, n int) error {
	const few = 4096
	width := o.c.rowBytes() / 4
	keys, rows := make([]uint64, few), make([]float32, few*width)
	for at := 0; at < n; at += few {
		k := min(few, n-at)
		for i := range k {
			keys[i] = keyOf(first + at + i)
			rowOf(first+at+i, rows[i*width:(i+1)*width])
		}
		if err := o.rows.LoadRows(keys[:k], rows[:k*width]); err != nil {
			return err
		}
		o.rows.Poll()
	}
	return nil
}

func (o *ours) settle(context.Context) error { return nil }

// each looks all batches up, several at a time, and calls f for each when its
// rows are there.
func (o *ours) each(rd *round, f func(l *flight)) error {
	next, under := 0, 0
	ended := func(l *flight) error {
		if l.lookup.Err != nil {
			return l.lookup.Err
		}
		f(l)
		o.rows.Release(l.rows)
		o.free = append(o.free, l)
		return nil
	}
	for next < len(rd.keys) || under > 0 {
		if next < len(rd.keys) && len(o.free) > 0 {
			l := o.free[len(o.free)-1]
			o.free = o.free[:len(o.free)-1]
			l.batch, l.lookup = next, tiers.Lookup{Keys: rd.keys[next], Rows: l.rows, Owner: l}
			next++
			o.asked += uint64(len(rd.keys[l.batch]))
			if !o.rows.Start(&l.lookup) {
				under++
			} else if err := ended(l); err != nil {
				return err
			}
		}
		done := o.rows.Poll()
		for _, k := range done {
			under--
			if err := ended(k.Owner.(*flight)); err != nil {
				return err
			}
		}
		if len(done) == 0 && under > 0 && (len(o.free) == 0 || next == len(rd.keys)) {
			if err := o.wait(rd.ctx); err != nil {
				return err
			}
		}
	}
	return rd.ctx.Err()
}

func (o *ours) read(rd *round) error {
	return o.each(rd, func(l *flight) { o.rows.Gather(l.rows, rd.answers[l.batch]) })
}

func (o *ours) write(rd *round) error {
	for _, keys := range rd.keys {
		if err := o.rows.LoadRows(keys, rd.rows); err != nil {
			return err
		}
		o.rows.Poll()
	}
	return rd.ctx.Err()
}

func (o *ours) rmw(rd *round) error {
	return o.each(rd, func(l *flight) { o.rows.Apply(l.rows, rd.grads) })
}

func (o *ours) counters() counters {
	s := o.rows.Stats()
	return counters{diskReads: s.DiskReads, asked: o.asked, writtenBytes: s.DiskWrites * uint64(o.c.rowBytes()), diskBytes: s.DiskBytes}
}

func (o *ours) close() error { return errors.Join(o.rows.Close(), o.disks.Close()) }
