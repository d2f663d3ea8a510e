package hbm

import (
	"errors"
	"fmt"
	"time"

	"psrt/rdma/mem"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
)

// arenas are rows on a device, worked on as a server does: what is gathered comes to the host's memory. It is
// the twin's bed, whose memory that is, and an accelerator's.
type arenas struct {
	device            hbm.Device
	rows, states      hbm.Arena
	ids, rowsFound    []uint32
	keys              []uint64
	flat, from, grads []float32 // of the arenas' own
	bulk              []float32
	memory            *mem.Arena // bulk's
	dim               int
}

func newArenas(c *Config, ids []uint32, f *finder) (b *arenas, err error) {
	b = &arenas{ids: ids, rowsFound: make([]uint32, len(ids)), keys: f.keys, dim: c.Dim}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.device, err = c.device(c.Index); err != nil {
		return b, err
	}
	if b.rows, err = b.open(c, table.SGD, f, c.total()); err != nil {
		return b, err
	}
	if b.states, err = b.open(c, table.AdaGrad, nil, c.total()/2); err != nil {
		return b, err
	}
	batchFloats := c.Dim * c.Rows
	if b.flat, err = b.rows.Buffer(apartBy * batchFloats); err != nil {
		return b, err
	}
	if b.from, err = b.rows.Buffer(batchFloats); err != nil {
		return b, err
	}
	if b.grads, err = b.states.Buffer(batchFloats); err != nil {
		return b, err
	}
	const bulkBatches = 6 // copies of 2.5 times a batch, from one half to the other
	if b.memory, err = mem.New(mem.Config{Size: 4 * bulkBatches * batchFloats, Node: -1, Purpose: "a batch's rows", Prefault: true}); err != nil {
		return b, err
	}
	b.bulk = mem.Float32s(b.memory.Bytes())[:bulkBatches*batchFloats]
	batchOf(b.from, ids, c.Dim)
	batchOf(b.grads, ids, c.Dim)
	return b, b.rows.Wait(b.rows.CopyIn(ids, b.from))
}

func (b *arenas) open(c *Config, optimizer string, f *finder, rows int) (hbm.Arena, error) {
	acc, err := accessor.New(table.Spec{Name: "rows", ID: 1, Dim: c.Dim, Optimizer: table.Optimizer{Kind: optimizer}}, c.Seed)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return b.device.Open(acc, nil, rows, c.Rows)
	}
	return b.device.Open(acc, f.index, rows, c.Rows)
}

// batchOf is a batch's rows, as they are filled.
func batchOf(dst []float32, ids []uint32, dim int) {
	for i, id := range ids {
		for j := range dim {
			dst[i*dim+j] = value(id) + float32(j)
		}
	}
}

func timed(f func()) (float64, error) {
	start := time.Now()
	f()
	return time.Since(start).Seconds(), nil
}

// done is the time of one call on the rows, to its end.
func (b *arenas) done(call func() hbm.Fence) (s float64, err error) {
	s, _ = timed(func() { err = b.rows.Wait(call()) })
	return s, err
}

func (b *arenas) name() string { return b.device.Name() }

func (b *arenas) gather() (float64, error) {
	return b.done(func() hbm.Fence { return b.rows.Gather(b.ids, b.flat[:len(b.from)], b.dim) })
}

func (b *arenas) apart() (float64, error) {
	return b.done(func() hbm.Fence { return b.rows.Gather(b.ids, b.flat, apartBy*b.dim) })
}

func (b *arenas) find() (float64, error) {
	return b.done(func() hbm.Fence { return b.rows.Find(b.keys, b.rowsFound, b.flat[:len(b.from)], b.dim) })
}

func (b *arenas) found() ([]uint32, error) { return b.rowsFound, nil }

func (b *arenas) fill() (float64, error) {
	return b.done(func() hbm.Fence { return b.rows.CopyIn(b.ids, b.from) })
}

func (b *arenas) bring() (float64, error) {
	return timed(func() { copy(b.flat[:len(b.from)], b.from) })
}

func (b *arenas) update() (s float64, err error) {
	var refused int
	s, _ = timed(func() { err = b.states.Wait(b.states.Update(b.ids, b.grads, &refused)) })
	if err == nil && refused > 0 {
		err = fmt.Errorf("hbm: %d updates were refused", refused)
	}
	return s, err
}

func (b *arenas) copy(bytes int) (float64, error) {
	n := bytes / 4
	return timed(func() { copy(b.bulk[len(b.bulk)/2:][:n], b.bulk[:n]) })
}

func (b *arenas) gathered(bool) ([]float32, error) { return b.flat, nil }

func (b *arenas) close() (err error) {
	for _, a := range []hbm.Arena{b.rows, b.states} {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
	}
	if b.memory != nil {
		err = errors.Join(err, b.memory.Close())
	}
	return err
}
