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

// hostBed is rows in the host's memory, worked on by the kernels for it.
type hostBed struct {
	rows, states     hbm.Arena
	ids, rowsFound   []uint32
	keys             []uint64
	flat, from, bulk []float32
	memory           []*mem.Arena
	dim              int
}

func newHostBed(c *Config, ids []uint32, f *finder) (b *hostBed, err error) {
	b = &hostBed{ids: ids, rowsFound: make([]uint32, len(ids)), keys: f.keys, dim: c.Dim}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	open := func(rows int, optimizer string) (hbm.Arena, error) {
		acc, err := accessor.New(table.Spec{Name: "rows", ID: 1, Dim: c.Dim, Optimizer: table.Optimizer{Kind: optimizer}}, c.Seed)
		if err != nil {
			return nil, err
		}
		return hbm.Host{Node: -1}.Open(acc, f.index, rows, c.Rows)
	}
	if b.rows, err = open(c.total(), table.SGD); err != nil {
		return b, err
	}
	if b.states, err = open(c.total()/2, table.AdaGrad); err != nil {
		return b, err
	}
	for _, p := range []struct {
		at    *[]float32
		times int
	}{{&b.flat, apartBy}, {&b.from, 1}, {&b.bulk, 6}} { // bulk: copies of 2.5 times a batch, from one half to the other
		m, err := mem.New(mem.Config{Size: 4 * c.Dim * c.Rows * p.times, Node: -1, Purpose: "a batch's rows", Prefault: true})
		if err != nil {
			return b, err
		}
		b.memory = append(b.memory, m)
		*p.at = mem.Float32s(m.Bytes())[:c.Dim*c.Rows*p.times]
	}
	batchOf(b.from, ids, c.Dim)
	b.rows.CopyIn(ids, b.from)
	return b, nil
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

func (b *hostBed) name() string { return hbm.Host{}.Name() }

func (b *hostBed) gather() (float64, error) {
	return timed(func() { b.rows.Gather(b.ids, b.flat, b.dim) })
}

func (b *hostBed) apart() (float64, error) {
	return timed(func() { b.rows.Gather(b.ids, b.flat, apartBy*b.dim) })
}

func (b *hostBed) find() (float64, error) {
	return timed(func() { b.rows.Find(b.keys, b.rowsFound, b.flat, b.dim) })
}

func (b *hostBed) found() ([]uint32, error) { return b.rowsFound, nil }

func (b *hostBed) fill() (float64, error) {
	return timed(func() { b.rows.CopyIn(b.ids, b.from) })
}

func (b *hostBed) bring() (float64, error) {
	return timed(func() { copy(b.flat[:len(b.from)], b.from) })
}

func (b *hostBed) update() (s float64, err error) {
	var refused int
	s, _ = timed(func() { b.states.Update(b.ids, b.from, &refused) })
	if refused > 0 {
		err = fmt.Errorf("hbm: %d updates were refused", refused)
	}
	return s, err
}

func (b *hostBed) copy(bytes int) (float64, error) {
	n := bytes / 4
	return timed(func() { copy(b.bulk[len(b.bulk)/2:][:n], b.bulk[:n]) })
}

func (b *hostBed) gathered(bool) ([]float32, error) { return b.flat, nil }

func (b *hostBed) close() (err error) {
	for _, a := range []hbm.Arena{b.rows, b.states} {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
	}
	for _, m := range b.memory {
		err = errors.Join(err, m.Close())
	}
	return err
}
