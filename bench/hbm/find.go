package hbm

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"psrt/csrc/probe"
	"psrt/rdma/mem"
)

// finder is the index of all rows, in the host's memory as a server's is, and the keys
// of a batch.
type finder struct {
	index  *probe.Index
	memory *mem.Arena
	keys   []uint64
	found  []uint32
}

const (
	segmentBytes = 1 << 20
	indexBytes   = 24 // of a key, at its worst
)

// keyOf is a row's key: any that are far apart.
func keyOf(id uint32) uint64 { return uint64(id)*0x9e3779b97f4a7c15 + 1 }

func newFinder(c *Config, ids []uint32) (f *finder, err error) {
	f = &finder{keys: make([]uint64, len(ids)), found: make([]uint32, len(ids))}
	if f.memory, err = mem.New(mem.Config{Size: c.total()*indexBytes + 4*segmentBytes, Node: -1, Purpose: "index of rows", Prefault: true}); err != nil {
		return nil, err
	}
	f.index = probe.NewIndex(c.Seed, uint(bits.Len(segmentBytes/probe.BucketBytes)-1), func() ([]byte, error) { return f.memory.Alloc(segmentBytes, 64) })
	f.index.Reserve(c.total())
	all, places := make([]uint64, 0, 4096), make([]uint32, 0, 4096)
	for id := range uint32(c.total()) {
		all, places = append(all, keyOf(id)), append(places, id)
		if len(all) == cap(all) || int(id) == c.total()-1 {
			if _, err := f.index.Set(all, places); err != nil {
				_ = f.memory.Close()
				return nil, err
			}
			all, places = all[:0], places[:0]
		}
	}
	for i, id := range ids {
		f.keys[i] = keyOf(id)
	}
	return f, nil
}

func (f *finder) find(ids []uint32) (float64, error) {
	s, _ := timed(func() { f.index.Find(f.keys, f.found) })
	for i, id := range ids {
		if f.found[i] != id {
			return 0, fmt.Errorf("hbm: key %#x is found in row %d, it is in %d", f.keys[i], f.found[i], id)
		}
	}
	return s, nil
}

// batch draws the rows of a batch, each once, in any order.
func batch(c *Config) []uint32 {
	r := rand.New(rand.NewPCG(c.Seed, 1))
	ids := make([]uint32, c.total()/2)
	for i := range ids {
		ids[i] = uint32(i)
	}
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:c.Rows]
}
