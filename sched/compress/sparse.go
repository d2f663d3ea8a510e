package compress

import (
	"cmp"
	"slices"

	"psrt/csrc/codec"
)

// Sparse chooses the rows of a table's gradients that are sent, those with the greatest
// value in them, and keeps the others, to be added to what the same rows get next.
//
// It keeps at most capacity rows. When they get many the oldest are due, all of one
// step together; what finds no room is sent. So nothing is ever lost, and what is sent
// when depends on keys and values alone, not on the order of the rows.
type Sparse struct {
	heads, width int
	capacity     int
	index        map[uint64]int32 // to slots
	rows         []float32
	step         []uint32 // by slot: when it was filled last
	times        []uint8  // by slot: of how many steps the row is the sum
	free         []int32
	steps        []keptIn // oldest first
	now          uint32

	peaks []uint32
	c     chooser
	work  Scratch
}

// keptIn lists the rows that were kept in a step. A row may have gone since.
type keptIn struct {
	step uint32
	keys []uint64
}

// NewSparse keeps rows of heads+width floats in about so many bytes. Of the heads the
// first is a name, the others are counts.
func NewSparse(heads, width, bytes int) *Sparse {
	return &Sparse{heads: heads, width: width, capacity: max(1, bytes/((heads+width)*4+keptOverhead)), index: map[uint64]int32{}}
}

// keptOverhead is about what a row takes beside its floats: in the map, its step, its
// place in the step's list.
const keptOverhead = 48

// Kept is how many rows have something to be sent.
func (s *Sparse) Kept() int { return len(s.index) }

// Due takes out what is to be sent beside the next rows: the oldest, until a quarter of
// the room is free, or all; at most limit of them, 0 for any number. rows are keys' in
// order, and so are times, of how many steps each is the sum.
func (s *Sparse) Due(all bool, limit int) (keys []uint64, rows []float32, times []uint8) {
	most := s.capacity * 3 / 4
	if all {
		most = 0
	}
	for len(s.index) > most && len(s.steps) > 0 {
		oldest := s.steps[0]
		s.steps = slices.Delete(s.steps, 0, 1)
		for i, k := range oldest.keys {
			if limit > 0 && len(keys) == limit {
				s.steps = slices.Insert(s.steps, 0, keptIn{oldest.step, oldest.keys[i:]})
				return keys, rows, times
			}
			if slot, ok := s.index[k]; ok && s.step[slot] == oldest.step {
				keys, rows, times = append(keys, k), append(rows, s.row(slot)...), append(times, s.times[slot])
				s.drop(k, slot)
			}
		}
	}
	return keys, rows, times
}

// Forget has nothing be kept of some rows.
func (s *Sparse) Forget(keys []uint64) {
	for _, k := range keys {
		if slot, ok := s.index[k]; ok {
			s.drop(k, slot)
		}
	}
	s.tidy()
}

func (s *Sparse) row(slot int32) []float32 {
	each := s.heads + s.width
	return s.rows[int(slot)*each:][:each]
}

func (s *Sparse) drop(key uint64, slot int32) {
	delete(s.index, key)
	s.free = append(s.free, slot)
}

// mostTimes is the most that times says: of more steps it says so many.
const mostTimes = 255

// Choose adds to rows what was kept of them and says which are sent: a share, or all
// with all; and of how many steps each is the sum. sent and times have room for all.
func (s *Sparse) Choose(keys []uint64, rows []float32, share float64, all bool, sent []bool, times []uint8) {
	least := portion(len(keys), share)
	if all {
		least = len(keys)
	}
	s.choose(keys, rows, least, sent, times)
}

// Hold adds to rows what was kept of them and keeps all for which there is room; sent, as
// of Choose, is what is not, and so is times.
func (s *Sparse) Hold(keys []uint64, rows []float32, sent []bool, times []uint8) {
	s.choose(keys, rows, 0, sent, times)
}

// Take adds to rows, all of which are sent, what was kept of them; times is as of Choose.
func (s *Sparse) Take(keys []uint64, rows []float32, times []uint8) {
	for i, key := range keys {
		if slot, ok := s.merge(i, key, rows, times); ok {
			s.drop(key, slot)
		}
	}
	s.tidy()
}

// merge adds to row i what was kept of it.
func (s *Sparse) merge(i int, key uint64, rows []float32, times []uint8) (slot int32, ok bool) {
	each := s.heads + s.width
	times[i] = 1
	if slot, ok = s.index[key]; ok {
		s.add(rows[i*each:(i+1)*each], s.row(slot))
		times[i] = min(s.times[slot], mostTimes-1) + 1
	}
	return slot, ok
}

// choose sends least of the rows, or more.
func (s *Sparse) choose(keys []uint64, rows []float32, least int, sent []bool, times []uint8) {
	each, n := s.heads+s.width, len(keys)
	room := s.capacity - len(s.index)
	for i, k := range keys {
		if _, ok := s.merge(i, k, rows, times); ok {
			room++
		}
		sent[i] = false
	}
	k := max(least, n-room)
	s.peaks = grow(s.peaks, n)
	tails := rows
	if s.heads > 0 {
		tails = s.work.tails(rows, s.heads, s.width)
	}
	if n > 0 {
		codec.Peaks(s.peaks, tails, s.width)
	}
	s.c.choose(n, k, func(i int) uint32 { return s.peaks[i] }, func(a, b int32) int { return cmp.Compare(keys[a], keys[b]) }, func(i int) { sent[i] = true })
	s.now++
	var kept []uint64
	for i, key := range keys {
		slot, ok := s.index[key]
		switch {
		case sent[i] && ok:
			s.drop(key, slot)
		case !sent[i]:
			if !ok {
				slot = s.slot()
				s.index[key] = slot
			}
			copy(s.row(slot), rows[i*each:(i+1)*each])
			s.step[slot], s.times[slot] = s.now, times[i]
			kept = append(kept, key)
		}
	}
	if len(kept) > 0 {
		s.steps = append(s.steps, keptIn{s.now, kept})
	}
	s.tidy()
}

// tidy bounds the lists of rows that have gone: they are as long as what is kept, twice.
func (s *Sparse) tidy() {
	total := 0
	for _, g := range s.steps {
		total += len(g.keys)
	}
	if total <= 2*len(s.index)+1024 {
		return
	}
	for i := range s.steps {
		g := &s.steps[i]
		g.keys = slices.DeleteFunc(g.keys, func(k uint64) bool {
			slot, ok := s.index[k]
			return !ok || s.step[slot] != g.step
		})
	}
	s.steps = slices.DeleteFunc(s.steps, func(g keptIn) bool { return len(g.keys) == 0 })
}

func (s *Sparse) add(to, kept []float32) {
	for i, f := range kept {
		if i > 0 || s.heads == 0 {
			to[i] += f
		}
	}
}

func (s *Sparse) slot() int32 {
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		return slot
	}
	s.step, s.times = append(s.step, 0), append(s.times, 0)
	s.rows = append(s.rows, make([]float32, s.heads+s.width)...)
	return int32(len(s.step) - 1)
}

// tails are rows without their heads.
func (s *Scratch) tails(rows []float32, heads, width int) []float32 {
	s.gathered = grow(s.gathered, len(rows)/(heads+width)*heads)
	return s.behead(s.gathered, rows, heads, width)
}
