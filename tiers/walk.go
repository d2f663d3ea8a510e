package tiers

import (
	"time"

	"psrt/tiers/ssd"
)

// walk reads the rows on disk that have a mark of one kind, in the order of
// their slots, a few at a time. Slots that get the mark while it goes on are
// met in the next turn.
type walk struct {
	n     int
	kind  int
	at    uint32
	buf   []float32
	items []walkItem
	ready []uint32 // items whose read has ended
	idle  []uint32 // items not in use
	queue []uint32 // items that the disk has not taken
}

type walkItem struct {
	slot uint32
	key  uint64
	err  error
	busy bool
	left bool // the row has left the slot, which may hold another by now
}

const (
	walkCut = iota
	walkSweep
	walkWhole
)

func (t *Tiered) newWalks() error {
	rows := t.space.walkRows(4 * t.rows.Stride)
	for n, kind := range []int{kindCut, kindSweep, kindWhole} {
		w := &walk{n: n, kind: kind, items: make([]walkItem, rows), buf: make([]float32, rows*t.rows.Stride)}
		for i := range rows {
			w.idle = append(w.idle, uint32(i))
		}
		t.walks[n] = w
	}
	return nil
}

func (w *walk) row(item uint32, stride int) []float32 {
	return w.buf[int(item)*stride : (int(item)+1)*stride]
}

// walkOn submits reads of the next marked rows.
func (t *Tiered) walkOn(w *walk) {
	t.flush()
	for len(w.idle) > 0 && t.marks.count[w.kind] > len(w.items)-len(w.idle) {
		slot := t.marks.next(w.kind, w.at)
		if w.reading(slot) {
			break // once around
		}
		item := w.idle[len(w.idle)-1]
		w.idle = w.idle[:len(w.idle)-1]
		w.items[item] = walkItem{slot: slot, busy: true}
		w.queue = append(w.queue, item)
		w.at = slot + 1
	}
	t.submitWalk(w)
}

func (t *Tiered) submitWalk(w *walk) {
	if len(w.queue) == 0 {
		return
	}
	rs, keep := t.scratch.reads[:0], w.queue[:0]
	for _, item := range w.queue {
		if w.items[item].left || !t.marks.has(w.kind, w.items[item].slot) { // gone before its turn
			w.items[item] = walkItem{}
			w.idle = append(w.idle, item)
			continue
		}
		keep = append(keep, item)
		rs = append(rs, ssd.Read{AnyKey: true, Slot: w.items[item].slot, ID: idWalk | uint64(w.n)<<16 | uint64(item), Dst: bytesOf(w.row(item, t.rows.Stride))})
	}
	t.scratch.reads = rs
	taken := t.disk.Read(rs)
	w.queue = append(w.queue[:0], keep[taken:]...)
}

func (w *walk) reading(slot uint32) bool {
	for i := range w.items {
		if w.items[i].busy && !w.items[i].left && w.items[i].slot == slot {
			return true
		}
	}
	return false
}

func (t *Tiered) walkDone(id, key uint64, err error) {
	w, item := t.walks[id>>16], uint32(id&0xffff)
	w.items[item].key, w.items[item].err = key, err
	w.ready = append(w.ready, item)
}

// given takes one row that has been read and still has its mark there.
func (t *Tiered) given(w *walk) (key uint64, slot uint32, row []float32, ok bool, err error) {
	for len(w.ready) > 0 {
		item := w.ready[0]
		w.ready = append(w.ready[:0], w.ready[1:]...)
		it := w.items[item]
		w.items[item] = walkItem{}
		w.idle = append(w.idle, item)
		switch {
		case it.left || !t.marks.has(w.kind, it.slot):
			continue
		case it.err != nil:
			w.at = it.slot
			return it.key, it.slot, nil, false, it.err
		}
		return it.key, it.slot, w.row(item, t.rows.Stride), true, nil
	}
	return 0, 0, nil, false, nil
}

// leave takes a row's marks from its slot: what a walk has read there, or is
// reading, is not to be given.
func (t *Tiered) leave(slot uint32) (flags uint8) {
	t.eachItem(slot, func(it *walkItem) { it.left = true })
	return t.marks.take(slot)
}

// follow has a row's marks, and what walks have read of it, go to another slot:
// it is the same row.
func (t *Tiered) follow(from, to uint32) {
	t.eachItem(from, func(it *walkItem) { it.slot = to })
	t.marks.move(from, to)
}

// eachItem calls f for what walks are reading in a slot, or have read.
func (t *Tiered) eachItem(slot uint32, f func(it *walkItem)) {
	for _, w := range t.walks {
		if len(w.idle) == len(w.items) {
			continue
		}
		for i := range w.items {
			if it := &w.items[i]; it.busy && !it.left && it.slot == slot {
				f(it)
			}
		}
	}
}

// quietMost bounds a wait for reads under way.
const quietMost = 5 * time.Minute

// quiet waits until no read is under way.
func (t *Tiered) quiet() error {
	deadline := time.Now().Add(quietMost)
	for t.reading() {
		t.disk.poll()
		t.flush()
		t.submit()
		for _, w := range t.walks {
			t.submitWalk(w)
		}
		if !t.reading() {
			break
		}
		if err := t.disk.wait(deadline); err != nil {
			return err
		}
	}
	return nil
}

// reading says whether the disk may still write to the table's memory.
func (t *Tiered) reading() bool {
	if t.loading > 0 {
		return true
	}
	for _, w := range t.walks {
		if len(w.idle)+len(w.ready) < len(w.items) {
			return true
		}
	}
	return false
}
