package tables

import (
	"math/rand/v2"

	"psrt/tiers/accessor"
)

// spread is the odd number whose multiples are the keys: one to one, and all
// over the key space.
const spread = 0x9e3779b97f4a7c15

// load is what one lane's tables hold and are asked for. A row's place is its
// number in the order of keys.
type load struct {
	dim     int
	first   uint64   // the key of place p is (first + p) x spread
	order   []uint32 // places in the order in which their keys come
	arrival []uint32 // for each place when that is: the number of its row
	walk    []uint32 // places in the order in which they are asked for
	grads   []float32
	acc     *accessor.Accessor
}

func newLoad(c *Config, lane, dim, n int, first uint64) (*load, error) {
	acc, err := accessor.New(c.spec(dim), c.Seed)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(c.Seed, uint64(lane)<<32|uint64(dim)))
	l := &load{dim: dim, first: first, order: shuffled(r, n), arrival: make([]uint32, n), walk: shuffled(r, n), acc: acc,
		grads: make([]float32, c.Keys*dim)}
	for i, place := range l.order {
		l.arrival[place] = uint32(i)
	}
	for i := range l.grads {
		l.grads[i] = float32(r.IntN(33)-16) / 16
	}
	return l, nil
}

func shuffled(r *rand.Rand, n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		j := r.IntN(i + 1)
		s[i], s[j] = s[j], uint32(i)
	}
	return s
}

func (l *load) key(place uint32) uint64 { return (l.first + uint64(place)) * spread }

// batch fills b with the places that follow `at` in a list of them, beginning
// again at its end.
func (l *load) batch(places []uint32, at int, b *batch) {
	for i := range b.keys {
		b.places[i] = places[(at+i)%len(places)]
		b.keys[i] = l.key(b.places[i])
	}
}
