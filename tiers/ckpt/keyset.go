package ckpt

import "math/bits"

// keySet is a set of ids at 12 to 23 bytes each: open addressing, at most three
// quarters full. The zero value is empty.
type keySet struct {
	slots []uint64 // 0 is a free one
	// marks have four bits for each slot. Most ids that are asked for are not in the
	// set; the bits, which are in a cache where the slots are not, say so of eight in ten.
	marks []uint64
	n     int  // in slots
	zero  bool // 0 itself
}

// keyBytes is what a keySet takes for each id, at worst.
const keyBytes = 23

// mix spreads ids that count up or share their low bits.
func mix(key uint64) uint64 {
	key *= 0x9e3779b97f4a7c15
	key ^= key >> 32
	return key * 0xd6e8feb86659fd93
}

// passOf says which of some passes over the data an id belongs to. It uses the
// upper bits of mix, a keySet the lower ones.
func passOf(key uint64, passes int) int {
	hi, _ := bits.Mul64(mix(key), uint64(passes))
	return int(hi)
}

// reset empties the set and makes room for n ids.
func (s *keySet) reset(n int) {
	want := 1 << bits.Len(uint(max(8, n+n/3)))
	if want > len(s.slots) {
		s.room(want)
	} else {
		clear(s.slots)
		clear(s.marks)
	}
	s.n, s.zero = 0, false
}

func (s *keySet) len() int {
	if s.zero {
		return s.n + 1
	}
	return s.n
}

// room is of n slots, a power of two and at least 16, all free.
func (s *keySet) room(n int) { s.slots, s.marks = make([]uint64, n), make([]uint64, n/16) }

// mark is the bit of an id in marks.
func (s *keySet) mark(h uint64) (word *uint64, bit uint64) {
	return &s.marks[h/64&uint64(len(s.marks)-1)], 1 << (h % 64)
}

func (s *keySet) has(key uint64) bool {
	if key == 0 {
		return s.zero
	}
	h := mix(key)
	if word, bit := s.mark(h); *word&bit == 0 {
		return false
	}
	for i := h; ; i++ {
		switch s.slots[i&uint64(len(s.slots)-1)] {
		case key:
			return true
		case 0:
			return false
		}
	}
}

// add reports whether the id is new.
func (s *keySet) add(key uint64) bool {
	if key == 0 {
		was := s.zero
		s.zero = true
		return !was
	}
	if 4*(s.n+1) > 3*len(s.slots) {
		s.grow()
	}
	h := mix(key)
	for i := h; ; i++ {
		switch p := &s.slots[i&uint64(len(s.slots)-1)]; *p {
		case key:
			return false
		case 0:
			*p = key
			s.n++
			word, bit := s.mark(h)
			*word |= bit
			return true
		}
	}
}

func (s *keySet) grow() {
	old := s.slots
	s.room(max(16, 2*len(old)))
	s.n = 0
	for _, k := range old {
		if k != 0 {
			s.add(k)
		}
	}
}
