package hbm

import (
	"fmt"

	"psrt/rdma/mem"
	"psrt/tiers/table"
)

// journal has what was done to the dirty rows since each was put back, in the order in which
// it was done: with the rows as the tier below has them, what a device that fails had.
//
// It is emptied when no row is dirty, which its owner sees to before it is full; where that cannot
// be, what of it the tier below has makes room. Nothing in it is of before the last event of a lifecycle, but of
// rows that its owner counts as lacking something.
type journal struct {
	memory  *mem.Arena
	floats  []float32 // gradients, or whole rows, of all entries
	slots   []uint32
	entries []entry
	used    struct{ floats, slots int }
	// since is by slot: what was done before that entry is in the tier below. It says nothing
	// of a slot that is not dirty.
	since []uint32
	tried int // rows that came since the last try to empty it
	gone  int // rows that were put back since it last had room made
}

// entry is one call: a batch of slots with gradients, or whole rows.
type entry struct {
	n     int
	whole bool
}

// leastEntries is how many rows of a call a journal has room for at least.
const leastEntries = 128

// journaled is what a row of a call takes, and of how many there is room at least.
func journaled(spec *table.Spec, batchRows int) (each, least int) {
	return 4 * (spec.PushFloats() + 1), max(min(batchRows, leastEntries), 1+spec.RowFloats()/spec.PushFloats())
}

// LeastJournal is the smallest Config.Journal of a table.
func LeastJournal(spec table.Spec, batchRows int) int64 {
	each, least := journaled(&spec, batchRows)
	return int64(each * least)
}

// newJournal takes so many bytes for what is done to rows, and noted for each of n slots.
func newJournal(spec table.Spec, bytes int64, n, batchRows, node int) (*journal, error) {
	each, least := journaled(&spec, batchRows)
	rows := int(bytes / int64(each))
	if rows < least {
		return nil, fmt.Errorf("hbm: table %q: a journal of %d bytes has no room for %d rows: %d are the least", spec.Name, bytes, least, each*least)
	}
	m, err := mem.New(mem.Config{Size: rows*each + noteBytes*n, Node: node, Purpose: "journal of rows on a device"})
	if err != nil {
		return nil, err
	}
	b := m.Bytes()
	since, b := b[:noteBytes*n], b[noteBytes*n:]
	return &journal{memory: m, since: mem.Uint32s(since), slots: mem.Uint32s(b[:4*rows]), floats: mem.Float32s(b[4*rows:])}, nil
}

// noteBytes are a journal's for each slot.
const noteBytes = 4

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	return j.memory.Close()
}

func (j *journal) bytes() int64 {
	if j == nil {
		return 0
	}
	return int64(len(j.memory.Bytes()))
}

// most is how many rows of a call there is ever room for.
func (j *journal) most(width int) int { return min(len(j.slots), len(j.floats)/width) }

// room says whether there is some for a call now.
func (j *journal) room(n, width int) bool {
	return j.used.slots+n <= len(j.slots) && j.used.floats+n*width <= len(j.floats)
}

// half says that it is time to put rows back.
func (j *journal) half() bool {
	return 2*j.used.slots > len(j.slots) || 2*j.used.floats > len(j.floats)
}

// turn is the number of the entry that comes next.
func (j *journal) turn() uint32 { return uint32(len(j.entries)) }

func (j *journal) empty() {
	j.entries = j.entries[:0]
	j.used.floats, j.used.slots = 0, 0
	j.tried, j.gone = 0, 0
}

// add notes a call, unless there is no room. Preconditions: its slots are dirty.
func (j *journal) add(slots []uint32, floats []float32, whole bool) bool {
	if !j.room(len(slots), len(floats)/max(1, len(slots))) {
		return false
	}
	copy(j.slots[j.used.slots:], slots)
	copy(j.floats[j.used.floats:], floats)
	j.used.slots += len(slots)
	j.used.floats += len(floats)
	j.entries = append(j.entries, entry{len(slots), whole})
	return true
}

// compact leaves out what was done to rows that are not wanted any more. The entries that are left
// have new turns, and since with them.
func (j *journal) compact(isDirty, isWanted func(slot uint32) bool, pushFloats, rowFloats int) {
	turns := make([]uint32, len(j.entries)+1)
	from, to, kept := 0, 0, 0 // slots, and entries
	fromFloats, toFloats := 0, 0
	for turn, e := range j.entries {
		turns[turn] = uint32(kept)
		width := pushFloats
		if e.whole {
			width = rowFloats
		}
		n := 0
		for i, s := range j.slots[from : from+e.n] {
			if s == noRow || !isWanted(s) || j.since[s] > uint32(turn) {
				continue
			}
			j.slots[to+n] = s
			copy(j.floats[toFloats+n*width:][:width], j.floats[fromFloats+i*width:][:width])
			n++
		}
		from, fromFloats = from+e.n, fromFloats+e.n*width
		if to, toFloats = to+n, toFloats+n*width; n > 0 {
			j.entries[kept] = entry{n, e.whole}
			kept++
		}
	}
	turns[len(j.entries)] = uint32(kept)
	for s := range j.since {
		if isDirty(uint32(s)) {
			j.since[s] = turns[j.since[s]]
		}
	}
	j.entries, j.used.slots, j.used.floats, j.gone = j.entries[:kept], to, toFloats, 0
}

// replay does again on an arena what the tier below does not have, and gives how many of the
// last call's gradients were refused.
func (j *journal) replay(to Arena, isDirty func(slot uint32) bool, pushFloats, rowFloats int) (refused int) {
	slots, floats := j.slots, j.floats
	for turn, e := range j.entries {
		width := pushFloats
		if e.whole {
			width = rowFloats
		}
		some := slots[:e.n]
		for i, s := range some {
			if s != noRow && (!isDirty(s) || j.since[s] > uint32(turn)) {
				some[i] = noRow
			}
		}
		if e.whole {
			to.CopyIn(some, floats[:e.n*width])
		} else {
			to.Update(some, floats[:e.n*width], &refused)
		}
		slots, floats = slots[e.n:], floats[e.n*width:]
	}
	return refused
}
