package tiers

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/csrc/probe"
)

// putRows bounds the rows that LoadRows deals with at once.
const putRows = 1024

// put is what is left of some rows that are to be set.
type put struct {
	keys    []uint64 // distinct
	at      []int32  // which row each one gets
	fresh   []uint64 // those of them that have no row
	freshAt []int32
	vals    []uint32
	undone  []uint64
	occ     []int32
	dedup   probe.DedupScratch
}

func (p *put) again(key uint64, at int32) {
	p.keys, p.at = append(p.keys, key), append(p.at, at)
}

// Load sets a row. It waits for the disk when that is behind.
func (t *Tiered) Load(key uint64, row []float32) error { return t.LoadRows([]uint64{key}, row) }

// LoadRows sets rows. Those in memory are overwritten there, others take empty
// frames or go to the log as they are: nothing is read, and no row leaves memory
// for them. It waits for the disk when that is behind.
func (t *Tiered) LoadRows(keys []uint64, rows []float32) error {
	if err := t.isClosed(); err != nil {
		return err
	}
	stride := t.rows.Stride
	if len(rows) != len(keys)*stride {
		return fmt.Errorf("tiers: table %q: %d floats for the rows of %d keys, want %d each", t.spec.Name, len(rows), len(keys), stride)
	}
	if t.acc.HasLifecycle() {
		for i, key := range keys {
			if err := t.acc.Check(rows[i*stride : (i+1)*stride]); err != nil {
				return fmt.Errorf("tiers: key %d: %w", key, err)
			}
		}
	}
	for len(keys) > 0 {
		n := min(putRows, len(keys))
		if err := t.put(keys[:n], rows[:n*stride]); err != nil {
			return err
		}
		keys, rows = keys[n:], rows[n*stride:]
	}
	return nil
}

// put sets rows. Of a key that comes twice the last one counts.
func (t *Tiered) put(keys []uint64, rows []float32) error {
	p := &t.scratch.put
	p.occ = slices.Grow(p.occ[:0], len(keys))[:len(keys)]
	p.keys = slices.Grow(p.keys[:0], len(keys))[:len(keys)]
	p.at = slices.Grow(p.at[:0], len(keys))[:len(keys)]
	p.keys = p.keys[:probe.Dedup(&p.dedup, keys, p.occ, p.keys)]
	for i, k := range p.occ {
		p.at[k] = int32(i)
	}
	deadline := time.Now().Add(quietMost)
	for {
		before := len(p.keys)
		err := t.putSome(p, rows)
		t.flush()
		if err != nil || len(p.keys) == 0 {
			return err
		}
		behind := t.busy
		t.submit()
		t.disk.poll()
		t.goOnAll()
		switch {
		case len(p.keys) < before:
			deadline = time.Now().Add(quietMost)
		case behind || t.loading > 0:
			if err := t.disk.wait(deadline); err != nil {
				return err
			}
		}
	}
}

// putSome sets what can be set now, and leaves the rest in p.
func (t *Tiered) putSome(p *put, rows []float32) error {
	t.makeRoom()
	t.flush()
	keys, at := p.keys, p.at
	p.vals = slices.Grow(p.vals[:0], len(keys))[:len(keys)]
	t.index.Find(keys, p.vals)
	p.keys, p.at, p.fresh, p.freshAt = p.keys[:0], p.at[:0], p.fresh[:0], p.freshAt[:0]
	for i, v := range p.vals {
		if v == noRow {
			p.fresh, p.freshAt = append(p.fresh, keys[i]), append(p.freshAt, at[i])
			continue
		}
		err := t.putOver(keys[i], v, t.rowOf(rows, at[i]))
		if errors.Is(err, ErrBusy) {
			p.again(keys[i], at[i])
		} else if err != nil {
			return err
		}
	}
	if len(p.fresh) == 0 {
		return nil
	}
	return t.putFresh(p, rows)
}

func (t *Tiered) rowOf(rows []float32, at int32) []float32 {
	return rows[int(at)*t.rows.Stride : (int(at)+1)*t.rows.Stride]
}

// putOver overwrites a row, which is at v.
func (t *Tiered) putOver(key uint64, v uint32, row []float32) error {
	if v >= onFrame {
		f := v - onFrame
		if c, i := t.led.at(f); c.flags[i]&flagLoading != 0 {
			return ErrBusy
		}
		t.touchOne(f)
		copy(t.row(f), row)
		return nil
	}
	if t.marks.has(kindCut, v) { // the cut wants what it was
		if t.room() < 1 {
			return ErrPinned
		}
		return t.fetch(key, v)
	}
	slot, err := t.append(key, row)
	if err != nil {
		return err
	}
	flags := t.leave(v)
	t.disk.Free(v)
	t.marks.put(slot, flags|markChanged)
	t.later(key, slot)
	return nil
}

// append writes a row to the log, unless that has been behind since the last
// poll.
func (t *Tiered) append(key uint64, row []float32) (slot uint32, err error) {
	if t.busy {
		return 0, ErrBusy
	}
	slot, err = t.disk.Append(key, bytesOf(row))
	if err != nil {
		t.busy = errors.Is(err, ErrBusy)
		return 0, err
	}
	t.stats.DiskWrites++
	return slot, nil
}

// putFresh makes rows. The index comes first: what a log has is not taken back.
func (t *Tiered) putFresh(p *put, rows []float32) error {
	p.vals, p.undone = p.vals[:0], p.undone[:0]
	for v := uint32(0); len(p.vals) < len(p.fresh); {
		if v != noRow { // once there is none, there is none for the rest
			v = t.emptyFrame()
		}
		p.vals = append(p.vals, v)
	}
	done, full := t.index.Set(p.fresh, p.vals)
	var failed error
	for i, key := range p.fresh[:done] {
		row := t.rowOf(rows, p.freshAt[i])
		if v := p.vals[i]; v != noRow {
			copy(t.row(v-onFrame), row)
			t.occupy(v-onFrame, key, flagDirty|markChanged, noSlot, 0)
			continue
		}
		slot, err := t.append(key, row)
		if err != nil {
			p.undone = append(p.undone, key)
			p.again(key, p.freshAt[i])
			if !errors.Is(err, ErrBusy) {
				failed = err
			}
			continue
		}
		t.marks.put(slot, markChanged)
		t.later(key, slot)
	}
	t.index.Delete(p.undone)
	for i := done; i < len(p.fresh); i++ {
		if v := p.vals[i]; v != noRow {
			t.giveBack(v - onFrame)
		}
		p.again(p.fresh[i], p.freshAt[i])
	}
	if full != nil && failed == nil {
		if err := t.indexRoom(full); !errors.Is(err, ErrBusy) {
			return err
		}
	}
	return failed
}

// emptyFrame takes a frame that nobody has, if there is one.
func (t *Tiered) emptyFrame() uint32 {
	if len(t.free)+t.space.more() <= t.ahead.sum || len(t.free) == 0 && !t.addSlab() {
		return noRow
	}
	f := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	return onFrame + f
}
