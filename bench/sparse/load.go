package sparse

import "math/rand/v2"

// load is the batches of a round: distinct keys, drawn evenly from the table,
// so that caches help nobody, and gradients of small whole numbers.
type load struct {
	keys  [][]uint64
	grads []float32 // of one batch; the same for all
}

func newLoad(c *Config, dim int) *load {
	r := rand.New(rand.NewPCG(c.Seed, uint64(dim)))
	l := &load{grads: make([]float32, c.Keys*dim)}
	for i := range l.grads {
		l.grads[i] = float32(r.IntN(3) - 1)
	}
	for range c.Batches {
		seen := make(map[uint64]struct{}, c.Keys)
		batch := make([]uint64, 0, c.Keys)
		for len(batch) < c.Keys {
			k := keyOf(r.IntN(c.Rows))
			if _, ok := seen[k]; !ok {
				seen[k] = struct{}{}
				batch = append(batch, k)
			}
		}
		l.keys = append(l.keys, batch)
	}
	return l
}

// keyOf spreads row numbers over the key space, one to one.
func keyOf(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }

// all yields the table's keys in batches.
func all(c *Config, f func(keys []uint64) error) error {
	batch := make([]uint64, 0, c.Keys)
	for i := range c.Rows {
		batch = append(batch, keyOf(i))
		if len(batch) == c.Keys || i == c.Rows-1 {
			if err := f(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return nil
}
