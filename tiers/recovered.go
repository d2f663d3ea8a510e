package tiers

import "fmt"

// recovered notes rows that the disk has kept, in the slots from first on, and
// gives those that the keys had until now. One exchange with the index is for all of
// a page's: alone, a key costs a wait for memory.
func (t *Tiered) recovered(keys []uint64, first uint32, old []uint32) error {
	slots := t.scratch.vals[:0]
	for i := range keys {
		slots = append(slots, first+uint32(i))
	}
	t.scratch.vals = slots
	if n, err := t.index.Exchange(keys, slots, old); err != nil {
		return fmt.Errorf("%d of %d rows of a page: %w", n, len(keys), err)
	}
	t.marks.hold(first, len(keys))
	for i, slot := range old {
		if slot != noSlot && slot != slots[i] {
			t.marks.take(slot)
		}
	}
	return nil
}

// gone notes a row that was deleted, and gives the slot that it had.
func (t *Tiered) gone(key uint64) (old uint32) {
	if old = t.find(key); old != noSlot {
		t.marks.take(old)
		t.scratch.key[0] = key
		t.index.Delete(t.scratch.key[:])
	}
	return old
}
