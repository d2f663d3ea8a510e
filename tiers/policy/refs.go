package policy

import "math/bits"

// refs finds numbers by key: an open table of numbers, whose keys lie in an
// array of the caller's, keys[ref].
type refs struct {
	slots []uint32 // a power of two; none where empty
	used  int
}

func (t *refs) hash(key uint64) uint64 {
	key = (key ^ key>>32) * 0x9e3779b97f4a7c15
	return (key ^ key>>29) * 0xbf58476d1ce4e5b9 >> 20
}

// room makes room for n numbers, at most two thirds of the slots.
func (t *refs) room(n int, keys []uint64) {
	size := 1 << bits.Len(uint(n+n/2))
	if size <= len(t.slots) {
		return
	}
	old := t.slots
	t.slots = make([]uint32, size)
	for i := range t.slots {
		t.slots[i] = none
	}
	for _, ref := range old {
		if ref != none {
			t.slots[t.place(keys, keys[ref])] = ref
		}
	}
}

// place is where key is, or where it would go.
func (t *refs) place(keys []uint64, key uint64) uint64 {
	mask := uint64(len(t.slots) - 1)
	at := t.hash(key) & mask
	for t.slots[at] != none && keys[t.slots[at]] != key {
		at = (at + 1) & mask
	}
	return at
}

func (t *refs) find(keys []uint64, key uint64) uint32 {
	if len(t.slots) == 0 {
		return none
	}
	return t.slots[t.place(keys, key)]
}

// set gives key, which is keys[ref], its number.
func (t *refs) set(keys []uint64, ref uint32) {
	at := t.place(keys, keys[ref])
	if t.slots[at] == none {
		t.used++
	}
	t.slots[at] = ref
}

// remove forgets a key, and moves those behind it that would not be found over
// the hole.
func (t *refs) remove(keys []uint64, key uint64) {
	if len(t.slots) == 0 {
		return
	}
	mask := uint64(len(t.slots) - 1)
	hole := t.place(keys, key)
	if t.slots[hole] == none {
		return
	}
	t.used--
	for at := (hole + 1) & mask; t.slots[at] != none; at = (at + 1) & mask {
		home := t.hash(keys[t.slots[at]]) & mask
		if (at-home)&mask >= (at-hole)&mask {
			t.slots[hole] = t.slots[at]
			hole = at
		}
	}
	t.slots[hole] = none
}

func (t *refs) reset() {
	for i := range t.slots {
		t.slots[i] = none
	}
	t.used = 0
}

func (t *refs) bytes() int64 { return 4 * int64(cap(t.slots)) }
