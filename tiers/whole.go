package tiers

import (
	"fmt"
	"time"

	"psrt/rdma/mem"
	"psrt/tiers/table"
)

// Range calls f for every row: those in memory, then those on disk.
func (t *Tiered) Range(f func(key uint64, row []float32) bool) error {
	if err := t.isClosed(); err != nil {
		return err
	}
	t.frozen = true
	defer func() { t.frozen = false }()
	if err := t.quiet(); err != nil {
		return err
	}
	for n, c := range t.led.chunks {
		if c == nil {
			continue
		}
		for i, flags := range c.flags {
			if flags&flagLive == 0 {
				continue
			}
			now, isAlive := t.acc.Settled(t.row(uint32(n)<<t.rows.Shift+uint32(i)), t.now)
			if isAlive && !f(c.keys[i], now) {
				return nil
			}
		}
	}
	t.marks.become(func(w *[kinds]uint64) { w[kindWhole] = w[kindHeld] })
	defer t.marks.become(func(w *[kinds]uint64) { w[kindWhole] = 0 })
	return t.rangeDisk(t.walks[walkWhole], f)
}

func (t *Tiered) rangeDisk(w *walk, f func(key uint64, row []float32) bool) error {
	deadline := time.Now().Add(quietMost)
	for t.marks.count[kindWhole] > 0 {
		t.walkOn(w)
		t.disk.poll()
		t.flush()
		given := false
		for {
			key, slot, row, ok, err := t.given(w)
			if err != nil {
				return fmt.Errorf("tiers: table %q: reading a row: %w", t.spec.Name, err)
			}
			if !ok {
				break
			}
			given = true
			t.marks.clear(kindWhole, slot)
			if now, isAlive := t.acc.Settled(row, t.now); isAlive && !f(key, now) {
				return t.quiet()
			}
		}
		if given {
			deadline = time.Now().Add(quietMost)
			continue
		}
		t.walkOn(w)
		if err := t.disk.wait(deadline); err != nil {
			return err
		}
	}
	return t.quiet()
}

// Digest is the sum over all rows.
func (t *Tiered) Digest() (table.Digest, error) {
	var sum table.Digest
	var h table.RowHasher
	err := t.Range(func(key uint64, row []float32) bool {
		sum.Add(h.Hash(t.spec.ID, key, mem.Bytes(row)))
		return true
	})
	return sum, err
}

// fetch reads a row that nobody has looked up.
func (t *Tiered) fetch(key uint64, slot uint32) error {
	f, err := t.take()
	if err != nil {
		return err
	}
	t.read(f, key, slot, 0)
	t.flush()
	t.submit()
	return ErrBusy
}

// Reset forgets all rows.
func (t *Tiered) Reset() error {
	if err := t.isClosed(); err != nil {
		return err
	}
	if err := t.quiet(); err != nil {
		return err
	}
	if err := t.disk.Reset(); err != nil {
		return err
	}
	t.index.Reset()
	t.policy.Reset()
	t.hasChosen, t.moves = false, nil
	t.marks.reset()
	t.pendKeys, t.pendVals = t.pendKeys[:0], t.pendVals[:0]
	t.cut, t.cutLeft, t.sweep, t.drain, t.ahead = cut{}, 0, sweep{}, drain{}, newAhead()
	t.free, t.idle, t.coming, t.leaving, t.reserved, t.jobs, t.ended = t.free[:0], 0, 0, 0, 0, nil, nil
	for _, w := range t.walks {
		w.reset()
	}
	for n := len(t.led.chunks) - 1; n >= 0; n-- {
		c := t.led.chunks[n]
		if c == nil {
			continue
		}
		clear(c.flags)
		clear(c.pins)
		for i := len(c.flags) - 1; i >= 0; i-- {
			t.free = append(t.free, uint32(n)<<t.rows.Shift+uint32(i))
		}
	}
	return nil
}

func (w *walk) reset() {
	w.at, w.ready, w.queue, w.idle = 0, w.ready[:0], w.queue[:0], w.idle[:0]
	clear(w.items)
	for i := range w.items {
		w.idle = append(w.idle, uint32(i))
	}
}

// Close gives the memory back. Closing again does nothing.
func (t *Tiered) Close() error {
	if t.closed {
		return nil
	}
	err := t.quiet() // the disk writes to frames until then
	t.closed = true
	t.acc.Close()
	t.rows.Count, t.rows.Bases = 0, nil
	if err != nil {
		return err // the memory stays: a read may still land in it
	}
	return t.space.close()
}
