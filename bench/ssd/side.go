package ssd

import "context"

// side is one of the stores. Its answers to a batch are put where the batch
// says, in the order of its keys.
type side interface {
	name() string
	// fill makes all rows, and brings the store to where it is at rest.
	fill(ctx context.Context) error
	// read gives the weights of a round's batches.
	read(round *round) error
	// write replaces whole rows without having read them; rmw adds gradients by
	// the rule, reading what it must.
	write(round *round) error
	rmw(round *round) error
	// settle finishes what was put off.
	settle(ctx context.Context) error
	// counters since the store was opened.
	counters() counters
	close() error
}

// counters are what went to and from disk.
type counters struct {
	reads     uint64 // requests
	readRows  uint64 // rows that came with them
	written   int64  // bytes, compaction's included
	diskBytes int64  // taken now
	debt      int64  // bytes to be merged, as the store estimates it
}

func (c counters) since(before counters) counters {
	c.reads -= before.reads
	c.readRows -= before.readRows
	c.written -= before.written
	return c
}

// round is the same for every side. Batch b is of lane b modulo lanes.
type round struct {
	ctx     context.Context
	cfg     *Config
	keys    [][]uint64
	rows    []float32   // of one batch, for write: whole rows
	grads   []float32   // of one batch, for rmw
	answers [][]float32 // for read
}

func newRound(ctx context.Context, c *Config, k *keys, number int) *round {
	r := &round{ctx: ctx, cfg: c}
	width := c.RowBytes / 4
	for b := range c.Batches {
		ks := make([]uint64, c.Keys)
		k.batch(b%c.Lanes, ks)
		r.keys = append(r.keys, ks)
		r.answers = append(r.answers, nil)
	}
	r.rows, r.grads = make([]float32, c.Keys*width), make([]float32, c.Keys*c.dim())
	for i := range c.Keys {
		rowOf(number*c.Keys+i, r.rows[i*width:(i+1)*width])
	}
	for i := range r.grads {
		r.grads[i] = float32(i%5 - 2)
	}
	return r
}

// answer is where the answers of batch b go.
func (r *round) answer(b int) []float32 {
	if r.answers[b] == nil {
		r.answers[b] = make([]float32, r.cfg.Keys*r.cfg.dim())
	}
	return r.answers[b]
}
