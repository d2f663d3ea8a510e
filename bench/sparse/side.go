package sparse

import (
	"time"

	"psrt/bench/rival"
	"psrt/sched/client"
	"psrt/tiers/dram"
	"psrt/tiers/table"
)

// side is one of the three ways. A step pulls a batch, and pushes gradients for
// it; both are timed.
type side interface {
	name() string
	step(keys []uint64, grads []float32) (pull, push time.Duration, err error)
	// values pulls rows for the comparison in the end.
	values(keys []uint64) ([]float32, error)
	close() error
}

// bare is the limit: the table's own loops, with nothing between.
type bare struct {
	t    *dram.Table
	rows []uint32
	out  []float32
}

func newBare(c *Config, s table.Spec) (*bare, error) {
	t, err := dram.New(s, c.Seed, dram.Config{Node: -1})
	if err != nil {
		return nil, err
	}
	b := &bare{t: t, rows: make([]uint32, c.Keys), out: make([]float32, c.Keys*s.Dim)}
	return b, all(c, func(keys []uint64) error {
		_, err := t.Lookup(keys, b.rows[:len(keys)], true)
		return err
	})
}

func (b *bare) name() string { return "limit" }

func (b *bare) step(keys []uint64, grads []float32) (pull, push time.Duration, err error) {
	start := time.Now()
	if _, err = b.t.Lookup(keys, b.rows[:len(keys)], false); err != nil {
		return 0, 0, err
	}
	b.t.Gather(b.rows[:len(keys)], b.out)
	pulled := time.Now()
	b.t.Apply(b.rows[:len(keys)], grads)
	return pulled.Sub(start), time.Since(pulled), nil
}

func (b *bare) values(keys []uint64) ([]float32, error) {
	if _, err := b.t.Lookup(keys, b.rows[:len(keys)], false); err != nil {
		return nil, err
	}
	b.t.Gather(b.rows[:len(keys)], b.out)
	return b.out, nil
}

func (b *bare) close() error { return b.t.Close() }

// ours is psrt: a client that pulls into, and pushes from, its registered
// batch matrix. Planning (putting keys in lane order) is a worker's own work
// before the pull and is not timed, as removing duplicates is not for the
// rival.
type ours struct {
	c     *client.Client
	rows  *client.Rows
	index [][]int32
	clock uint64
	order []float32 // scratch: values back in the order of the keys
	dim   int
	// byKeys: the ticket of the pull is not used, the push names its rows.
	byKeys bool
}

func newOurs(c *Config, cl *client.Client, s table.Spec, byKeys bool) (*ours, error) {
	rows, err := cl.NewRows(s)
	if err != nil {
		return nil, err
	}
	o := &ours{c: cl, rows: rows, index: [][]int32{make([]int32, c.Keys)}, dim: s.Dim, order: make([]float32, c.Keys*s.Dim), byKeys: byKeys}
	return o, all(c, func(keys []uint64) error {
		var call client.Call
		return o.pull(keys, &call)
	})
}

func (o *ours) name() string {
	if o.byKeys {
		return "psrt by keys"
	}
	return "psrt"
}

func (o *ours) pull(keys []uint64, call *client.Call) error {
	if err := o.rows.Plan([][]uint64{keys}, [][]int32{o.index[0][:len(keys)]}); err != nil {
		return err
	}
	return o.answered(o.c.Pull(o.rows, o.clock, client.AnyClock, call), call)
}

func (o *ours) answered(err error, call *client.Call) error {
	if err != nil {
		return err
	}
	return o.c.Wait(call)
}

func (o *ours) step(keys []uint64, grads []float32) (pull, push time.Duration, err error) {
	if err = o.rows.Plan([][]uint64{keys}, [][]int32{o.index[0][:len(keys)]}); err != nil {
		return 0, 0, err
	}
	var call client.Call
	start := time.Now()
	if err = o.answered(o.c.Pull(o.rows, o.clock, client.AnyClock, &call), &call); err != nil {
		return 0, 0, err
	}
	pull = time.Since(start)
	if o.byKeys { // planning anew forgets the tickets; it gives the same places
		if err = o.rows.Plan([][]uint64{keys}, [][]int32{o.index[0][:len(keys)]}); err != nil {
			return 0, 0, err
		}
	}
	// The worker's own work again: gradients at the rows' places.
	out := o.rows.Grads()
	for i, at := range o.index[0][:len(keys)] {
		copy(out[int(at)*o.dim:][:o.dim], grads[i*o.dim:][:o.dim])
	}
	start = time.Now()
	err = o.answered(o.c.Push(o.rows, o.clock, false, &call), &call)
	return pull, time.Since(start), err
}

func (o *ours) values(keys []uint64) ([]float32, error) {
	var call client.Call
	if err := o.pull(keys, &call); err != nil {
		return nil, err
	}
	v := o.rows.Values()
	for i, at := range o.index[0][:len(keys)] {
		copy(o.order[i*o.dim:][:o.dim], v[int(at)*o.dim:][:o.dim])
	}
	return o.order, nil
}

func (o *ours) close() error {
	o.rows.Close()
	return nil
}

// classic is the rival over one stream.
type classic struct {
	label string
	c     *rival.Client
	dim   int
	out   []float32
	end   func() error
}

func newClassic(c *Config, label string, cl *rival.Client, dim int, end func() error) (*classic, error) {
	k := &classic{label: label, c: cl, dim: dim, out: make([]float32, c.Keys*dim), end: end}
	return k, all(c, func(keys []uint64) error { return cl.Pull(keys, dim, k.out[:len(keys)*dim]) })
}

func (k *classic) name() string { return k.label }

func (k *classic) step(keys []uint64, grads []float32) (pull, push time.Duration, err error) {
	start := time.Now()
	if err = k.c.Pull(keys, k.dim, k.out); err != nil {
		return 0, 0, err
	}
	pulled := time.Now()
	err = k.c.Push(keys, k.dim, grads)
	return pulled.Sub(start), time.Since(pulled), err
}

func (k *classic) values(keys []uint64) ([]float32, error) {
	return k.out, k.c.Pull(keys, k.dim, k.out)
}

func (k *classic) close() error { return k.end() }
