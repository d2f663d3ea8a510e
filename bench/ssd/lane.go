package ssd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/tiers"
)

// lane is one lane's part of our table: one goroutine that never waits for a
// disk while another batch can go on.
type lane struct {
	c     *Config
	index int
	rows  tiers.Rows
	disks *tiers.Disks
	wake  <-chan struct{} // something may have ended
	free  []*flight
}

// flight is one batch under way.
type flight struct {
	lookup tiers.Lookup
	batch  int
	rows   []uint32
}

// stall is how long a disk may say nothing.
const stall = time.Minute

func newLane(c *Config, index int, rows tiers.Rows, wake <-chan struct{}) *lane {
	o := &lane{c: c, index: index, rows: rows, wake: wake}
	for range c.InFlight {
		o.free = append(o.free, &flight{rows: make([]uint32, c.Keys)})
	}
	return o
}

func (o *lane) wait(ctx context.Context) error {
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

// set replaces rows, a batch of them.
func (o *lane) set(ctx context.Context, keys []uint64, rows []float32) error {
	if err := o.rows.LoadRows(keys, rows); err != nil {
		return err
	}
	o.rows.Poll()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// places sets n rows to what they are at first, those that next gives.
func (o *lane) places(ctx context.Context, n int, next func() int) error {
	width := o.c.RowBytes / 4
	keys, rows := make([]uint64, 0, o.c.Keys), make([]float32, o.c.Keys*width)
	for at := 0; at < n; at += len(keys) {
		keys = keys[:min(o.c.Keys, n-at)]
		for i := range keys {
			p := next()
			keys[i] = keyOf(p)
			rowOf(p, rows[i*width:(i+1)*width])
		}
		if err := o.set(ctx, keys, rows[:len(keys)*width]); err != nil {
			return err
		}
	}
	return nil
}

func (o *lane) fill(ctx context.Context) error {
	at := o.index - o.c.Lanes
	return o.places(ctx, (o.c.Rows-o.index+o.c.Lanes-1)/o.c.Lanes, func() int {
		at += o.c.Lanes
		return at
	})
}

// age overwrites rows with what they hold, so that dead ones lie all over the
// log.
func (o *lane) age(ctx context.Context) error {
	k := newKeys(o.c, 1<<32+uint64(o.index), false)
	return o.places(ctx, int(o.c.Age*float64(o.c.Rows))/o.c.Lanes, func() int { return k.draw(o.index) })
}

// each looks all batches of this lane up, several at a time, and calls f for each
// when its rows are there: in the order of the batches where inOrder says so.
func (o *lane) each(rd *round, inOrder bool, f func(l *flight)) error {
	next, turn, under := o.index, o.index, 0
	var early []*flight // their rows are there before those of batches that come first
	end := func(l *flight) {
		f(l)
		o.rows.Release(l.rows)
		o.free = append(o.free, l)
		turn += o.c.Lanes
	}
	ended := func(l *flight) error {
		if l.lookup.Err != nil {
			return l.lookup.Err
		}
		if !inOrder {
			end(l)
			return nil
		}
		early = append(early, l)
		for {
			i := slices.IndexFunc(early, func(l *flight) bool { return l.batch == turn })
			if i < 0 {
				return nil
			}
			l := early[i]
			early = slices.Delete(early, i, i+1)
			end(l)
		}
	}
	for next < len(rd.keys) || under > 0 {
		if next < len(rd.keys) && len(o.free) > 0 {
			l := o.free[len(o.free)-1]
			o.free = o.free[:len(o.free)-1]
			l.batch, l.lookup = next, tiers.Lookup{Keys: rd.keys[next], Rows: l.rows, Owner: l}
			next += o.c.Lanes
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
		if len(done) == 0 && under > 0 && (len(o.free) == 0 || next >= len(rd.keys)) {
			if err := o.wait(rd.ctx); err != nil {
				return err
			}
		}
	}
	return rd.ctx.Err()
}

func (o *lane) read(rd *round) error {
	return o.each(rd, false, func(l *flight) { o.rows.Gather(l.rows, rd.answer(l.batch)) })
}

func (o *lane) write(rd *round) error {
	for b := o.index; b < len(rd.keys); b += o.c.Lanes {
		if err := o.set(rd.ctx, rd.keys[b], rd.rows); err != nil {
			return err
		}
	}
	return nil
}

// rmw updates in order: AdaGrad's sums of gradients of a row that two batches have are
// not the same in another one.
func (o *lane) rmw(rd *round) error {
	return o.each(rd, true, func(l *flight) { o.rows.Apply(l.rows, rd.grads) })
}

func (o *lane) close() error { return errors.Join(o.rows.Close(), o.disks.Close()) }
