package tiers

import "math/bits"

// Kinds of marks that a row on disk has, one bit a slot each. kindHeld says that
// a row is in the slot and nowhere in memory; the others go with rows.
const (
	kindHeld = iota
	kindChanged
	kindCarried
	kindCut
	kindSweep
	kindWhole
	kinds
)

// kindOf pairs marks in memory with those on disk.
var kindOf = [...]struct {
	flag uint8
	kind int
}{{markChanged, kindChanged}, {markCarried, kindCarried}, {markCut, kindCut}, {markSweep, kindSweep}}

const (
	groupShift = 11 // slots of a group, as a power of two
	groupWords = 1 << groupShift / 64
	// groupBytes is what a group takes: less than one byte a slot.
	groupBytes = kinds * groupWords * 8
)

// group is the marks of some slots. All marks of a slot lie side by side.
type group [groupWords][kinds]uint64

// slotMarks are the marks of rows on disk, by slot.
type slotMarks struct {
	groups []*group
	count  [kinds]int
	taken  int // groups that are not nil
}

// room makes the group of a slot.
func (m *slotMarks) room(slot uint32) {
	for int(slot>>groupShift) >= len(m.groups) {
		m.groups = append(m.groups, nil)
	}
	if m.groups[slot>>groupShift] == nil {
		m.groups[slot>>groupShift] = new(group)
		m.taken++
	}
}

func (m *slotMarks) bytes() int64 { return int64(m.taken)*groupBytes + 8*int64(cap(m.groups)) }

func (m *slotMarks) has(kind int, slot uint32) bool {
	g := slot >> groupShift
	if int(g) >= len(m.groups) || m.groups[g] == nil {
		return false
	}
	i := slot & (1<<groupShift - 1)
	return m.groups[g][i/64][kind]>>(i%64)&1 != 0
}

func (m *slotMarks) set(kind int, slot uint32) {
	m.room(slot)
	i := slot & (1<<groupShift - 1)
	w := &m.groups[slot>>groupShift][i/64][kind]
	if *w>>(i%64)&1 == 0 {
		*w |= 1 << (i % 64)
		m.count[kind]++
	}
}

func (m *slotMarks) clear(kind int, slot uint32) {
	if m.has(kind, slot) {
		i := slot & (1<<groupShift - 1)
		m.groups[slot>>groupShift][i/64][kind] &^= 1 << (i % 64)
		m.count[kind]--
	}
}

// hold sets kindHeld of n slots from first on.
func (m *slotMarks) hold(first uint32, n int) {
	for end := first + uint32(n); first < end; {
		m.room(first)
		at := first & (1<<groupShift - 1)
		w := &m.groups[first>>groupShift][at/64][kindHeld]
		count := min(64-at%64, end-first)
		word := ^uint64(0) >> (64 - count) << (at % 64)
		m.count[kindHeld] += bits.OnesCount64(word &^ *w)
		*w |= word
		first += count
	}
}

// put says that a row, with its flags in memory, is in a slot now; take is the
// reverse, and gives the marks back.
func (m *slotMarks) put(slot uint32, flags uint8) {
	m.set(kindHeld, slot)
	if flags&(markChanged|markCarried|markCut|markSweep) == 0 {
		return
	}
	for _, k := range kindOf {
		if flags&k.flag != 0 {
			m.set(k.kind, slot)
		}
	}
}

func (m *slotMarks) take(slot uint32) (flags uint8) {
	g := slot >> groupShift
	if int(g) >= len(m.groups) || m.groups[g] == nil {
		return 0
	}
	w, bit := &m.groups[g][slot&(1<<groupShift-1)/64], uint64(1)<<(slot%64)
	for _, k := range kindOf {
		if w[k.kind]&bit != 0 {
			flags |= k.flag
		}
	}
	for kind := range kinds {
		if w[kind]&bit != 0 {
			w[kind] &^= bit
			m.count[kind]--
		}
	}
	return flags
}

// move has a row go from slot to slot.
func (m *slotMarks) move(from, to uint32) {
	for kind := range kinds {
		if m.has(kind, from) {
			m.clear(kind, from)
			m.set(kind, to)
		}
	}
}

// become lets f change the marks of all slots, 64 slots at a time.
func (m *slotMarks) become(f func(w *[kinds]uint64)) {
	m.count = [kinds]int{}
	for _, g := range m.groups {
		if g == nil {
			continue
		}
		for i := range g {
			w := &g[i]
			f(w)
			for kind := range kinds {
				m.count[kind] += bits.OnesCount64(w[kind])
			}
		}
	}
}

// next is the first slot from at on that has a mark; it starts again at 0 when
// there is none. Precondition: count[kind] > 0.
func (m *slotMarks) next(kind int, at uint32) uint32 {
	if int(at>>groupShift) >= len(m.groups) {
		at = 0
	}
	skip := at % 64
	for g, w := int(at>>groupShift), int(at&(1<<groupShift-1)/64); ; {
		if m.groups[g] == nil {
			g, w, skip = g+1, 0, 0
		} else {
			if word := m.groups[g][w][kind] >> skip << skip; word != 0 {
				return uint32(g)<<groupShift + uint32(w*64+bits.TrailingZeros64(word))
			}
			if w, skip = w+1, 0; w == groupWords {
				g, w = g+1, 0
			}
		}
		if g == len(m.groups) {
			g, w, skip = 0, 0, 0
		}
	}
}

func (m *slotMarks) reset() { *m = slotMarks{} }
