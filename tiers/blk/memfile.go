package blk

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// memFile is a file of a Memory: its bytes as reads see them, and beside them
// what each block may be after a crash.
type memFile struct {
	disk     *Memory
	size     int64
	chunks   [][]byte // nil where all is zero
	room     []uint64 // a bit for each block that has room
	open     int      // by how many numbers
	nameless bool

	seq      uint64 // of the last write answered
	unsynced map[int64]*history
}

// history is what has happened to a block since it last was certain.
type history struct {
	base   []byte // nil: zeros
	writes []version
}

type version struct {
	seq   uint64
	block []byte // nil: discarded
}

const chunkBytes = 64 << 10

func newMemFile(m *Memory, size int64) *memFile {
	f := &memFile{disk: m, size: size, unsynced: map[int64]*history{}}
	f.chunks = make([][]byte, (size+chunkBytes-1)/chunkBytes)
	f.room = make([]uint64, (size/int64(m.cfg.Block)+63)/64)
	for b := range size / int64(m.cfg.Block) {
		f.take(b)
	}
	return f
}

// clone is a copy on another disk.
func (f *memFile) clone(m *Memory) *memFile {
	c := *f
	c.disk, c.chunks, c.room = m, slices.Clone(f.chunks), slices.Clone(f.room)
	for i := range c.chunks {
		c.chunks[i] = slices.Clone(c.chunks[i])
	}
	c.unsynced = make(map[int64]*history, len(f.unsynced))
	for b, h := range f.unsynced {
		c.unsynced[b] = &history{h.base, slices.Clone(h.writes)}
	}
	return &c
}

// take gives a block room; false when the disk has none left.
func (f *memFile) take(b int64) bool {
	if f.room[b/64]&(1<<(b%64)) != 0 {
		return true
	}
	if f.disk.used+int64(f.disk.cfg.Block) > f.disk.cfg.Bytes {
		return false
	}
	f.disk.used += int64(f.disk.cfg.Block)
	f.room[b/64] |= 1 << (b % 64)
	return true
}

func (f *memFile) give(b int64) {
	if f.room[b/64]&(1<<(b%64)) != 0 {
		f.room[b/64] &^= 1 << (b % 64)
		f.disk.used -= int64(f.disk.cfg.Block)
	}
}

// forget frees the room of a file that has neither name nor number.
func (f *memFile) forget() {
	if f.nameless && f.open == 0 {
		for b := range f.size / int64(f.disk.cfg.Block) {
			f.give(b)
		}
	}
}

// block is block b as it is now; not to be written to, nor kept.
func (f *memFile) block(b int64) []byte {
	n := int64(f.disk.cfg.Block)
	at := b * n
	chunk := f.chunks[at/chunkBytes]
	if chunk == nil {
		return make([]byte, n)
	}
	return chunk[at%chunkBytes:][:n]
}

// put sets block b; nil is zeros.
func (f *memFile) put(b int64, block []byte) {
	n := int64(f.disk.cfg.Block)
	at := b * n
	chunk := &f.chunks[at/chunkBytes]
	if *chunk == nil {
		if block == nil {
			return
		}
		*chunk = make([]byte, chunkBytes)
	}
	dst := (*chunk)[at%chunkBytes:][:n]
	clear(dst)
	copy(dst, block)
}

// write answers a write: block nil is a discard.
func (f *memFile) write(b int64, block []byte) {
	h := f.history(b)
	block = slices.Clone(block)
	h.writes = append(h.writes, version{f.seq, block})
	f.put(b, block)
}

func (f *memFile) history(b int64) *history {
	h := f.unsynced[b]
	if h == nil {
		h = &history{base: slices.Clone(f.block(b))}
		f.unsynced[b] = h
	}
	return h
}

// sync makes certain what was answered up to seq.
func (f *memFile) sync(seq uint64) {
	for b, h := range f.unsynced {
		n := 0
		for n < len(h.writes) && h.writes[n].seq <= seq {
			h.base = h.writes[n].block
			n++
		}
		if h.writes = h.writes[n:]; len(h.writes) == 0 {
			delete(f.unsynced, b)
		}
	}
}

// settle makes each uncertain block one of what it may be. With the power on
// only writes that were interrupted (seq 0) are uncertain.
func (f *memFile) settle(rng *rand.Rand, power bool) {
	for _, b := range slices.Sorted(maps.Keys(f.unsynced)) {
		h := f.unsynced[b]
		may := []version{{block: h.base}}
		for _, v := range h.writes {
			if !power && v.seq != 0 {
				may = may[:0]
			}
			may = append(may, v)
		}
		f.put(b, may[rng.IntN(len(may))].block)
	}
	f.unsynced = map[int64]*history{}
	f.open = 0
}
