package hbm

import (
	"fmt"
	"math/rand/v2"

	"psrt/csrc/probe"
	"psrt/rdma/mem"
)

// finder is the index of all rows, as it is in the host's memory, and the keys of a
// batch.
type finder struct {
	index  *probe.Bounded
	memory *mem.Arena
	keys   []uint64
}

// keyOf is a row's key: any that are far apart.
func keyOf(id uint32) uint64 { return uint64(id)*0x9e3779b97f4a7c15 + 1 }

func newFinder(c *Config, ids []uint32) (f *finder, err error) {
	f = &finder{keys: make([]uint64, len(ids))}
	bytes := probe.BoundedBuckets(c.total()) * probe.BucketBytes
	if f.memory, err = mem.New(mem.Config{Size: bytes, Node: -1, Purpose: "index of rows", Prefault: true}); err != nil {
		return nil, err
	}
	f.index = probe.NewBounded(c.Seed, c.total(), f.memory.Bytes()[:bytes])
	for id := range uint32(c.total()) {
		if err := f.index.Set(keyOf(id), id); err != nil {
			_ = f.memory.Close()
			return nil, err
		}
	}
	for i, id := range ids {
		f.keys[i] = keyOf(id)
	}
	return f, nil
}

// checkFound holds what a bed has found against what the keys are.
func checkFound(b bed, ids []uint32) error {
	found, err := b.found()
	if err != nil {
		return err
	}
	for i, id := range ids {
		if found[i] != id {
			return fmt.Errorf("hbm: key %#x is found in row %d, it is in %d", keyOf(id), found[i], id)
		}
	}
	return nil
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
