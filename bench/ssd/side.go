package ssd

import "context"

// side is one of the stores. Its answers to a batch are put where the batch
// says, in the order of its keys.
type side interface {
	name() string
	// fill makes rows [first, first+n).
	fill(first, n int) error
	// settle ends what filling and writing have put off, as far as the store does
	// that by itself.
	settle(ctx context.Context) error
	// read gives the weights of a round's batches.
	read(round *round) error
	// write replaces whole rows without having read them; rmw adds gradients by
	// the rule, reading what it must.
	write(round *round) error
	rmw(round *round) error
	// counters since the store was opened.
	counters() counters
	close() error
}

// counters are bytes and rows that went to and from disk.
type counters struct {
	diskReads    uint64 // rows
	asked        uint64 // rows looked up
	writtenBytes uint64
	diskBytes    int64 // taken now
}

// round is the same for every side.
type round struct {
	ctx     context.Context
	cfg     *Config
	places  [][]int
	keys    [][]uint64
	rows    []float32 // of one batch, for write: whole rows
	grads   []float32 // of one batch, for rmw
	answers [][]float32
}

func newRound(ctx context.Context, c *Config, k *keys, number int) *round {
	r := &round{ctx: ctx, cfg: c}
	width := c.rowBytes() / 4
	for range c.Batches {
		p, ks := make([]int, c.Keys), make([]uint64, c.Keys)
		k.batch(p, ks)
		r.places, r.keys = append(r.places, p), append(r.keys, ks)
		r.answers = append(r.answers, make([]float32, c.Keys*c.Dim))
	}
	r.rows, r.grads = make([]float32, c.Keys*width), make([]float32, c.Keys*c.Dim)
	for i := range c.Keys {
		rowOf(number*c.Keys+i, r.rows[i*width:(i+1)*width])
	}
	for i := range r.grads {
		r.grads[i] = float32(i%5 - 2)
	}
	return r
}
