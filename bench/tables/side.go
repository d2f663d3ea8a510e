package tables

import (
	"psrt/csrc/bare"
	"psrt/csrc/kernels"
	"psrt/rdma/mem"
	"psrt/tiers/accessor"
	"psrt/tiers/dram"
	"psrt/tiers/table"
)

// side is one of the two tables of a lane.
type side interface {
	// open makes it empty, with memory that nobody has touched.
	open() error
	// ready is told of the keys that the next insert brings; not timed.
	ready(keys []uint64)
	insert(keys []uint64, rows []uint32) error
	find(keys []uint64, rows []uint32) error
	pull(keys []uint64, rows []uint32, dst []float32) error
	update(rows []uint32, grads []float32)
	// learn does to one row what update does, by plain arithmetic.
	learn(row, grad []float32)
	close() error
}

// ours is the table.
type ours struct {
	spec table.Spec
	seed uint64
	rule *kernels.Rule
	t    *dram.Table
}

func (o *ours) open() (err error) {
	o.t, err = dram.New(o.spec, o.seed, dram.Config{Node: -1})
	return err
}

func (o *ours) ready([]uint64) {}

func (o *ours) insert(keys []uint64, rows []uint32) error {
	_, err := o.t.Lookup(keys, rows, true)
	return err
}

func (o *ours) find(keys []uint64, rows []uint32) error {
	_, err := o.t.Lookup(keys, rows, false)
	return err
}

func (o *ours) pull(keys []uint64, rows []uint32, dst []float32) error {
	_, err := o.t.Lookup(keys, rows, false)
	o.t.Gather(rows, dst)
	return err
}

func (o *ours) update(rows []uint32, grads []float32) { o.t.Apply(rows, grads) }

func (o *ours) learn(row, grad []float32) {
	one := kernels.Rows{Bases: []*float32{&row[0]}, Stride: len(row), Count: 1}
	kernels.Go.Update(o.rule, o.spec.Dim, &one, []uint32{0}, grad)
}

func (o *ours) close() error {
	if o.t == nil {
		return nil
	}
	return o.t.Close()
}

// plain is the limit: the bare table, in memory of the same kind.
type plain struct {
	acc    *accessor.Accessor
	dim, n int
	first  uint64
	rate   float32
	t      bare.Table
	arenas [2]*mem.Arena
	born   []float32 // of one batch
}

func (p *plain) open() (err error) {
	stride := p.acc.RowFloats()
	p.t = bare.Table{Stride: stride, First: p.first, Inverse: bare.InverseOf(spread)}
	for i, size := range []int{p.n * bare.SlotBytes, p.n * stride * 4} {
		if p.arenas[i], err = mem.New(mem.Config{Size: size, Node: -1, Purpose: "bare table"}); err != nil {
			return err
		}
	}
	p.t.Slots, p.t.Rows = bare.Slots(p.arenas[0].Bytes()[:p.n*bare.SlotBytes]), mem.Float32s(p.arenas[1].Bytes()[:p.n*stride*4])
	return nil
}

func (p *plain) ready(keys []uint64) {
	stride := p.acc.RowFloats()
	if len(p.born) < len(keys)*stride {
		p.born = make([]float32, len(keys)*stride)
	}
	for i, k := range keys {
		p.acc.Born(k, p.born[i*stride:][:stride])
	}
}

func (p *plain) insert(keys []uint64, rows []uint32) error {
	for i := range keys {
		rows[i] = uint32(p.t.Len() + i)
	}
	p.t.Insert(keys, p.born)
	return nil
}

func (p *plain) find(keys []uint64, rows []uint32) error {
	p.t.Find(keys, rows)
	return nil
}

func (p *plain) pull(keys []uint64, _ []uint32, dst []float32) error {
	p.t.Pull(keys, p.dim, dst)
	return nil
}

func (p *plain) update(rows []uint32, grads []float32) { p.t.Update(rows, p.dim, grads, p.rate) }

func (p *plain) learn(row, grad []float32) {
	for i := range row {
		row[i] -= float32(p.rate * grad[i%p.dim])
	}
}

func (p *plain) close() error {
	var err error
	for i, a := range p.arenas {
		if a != nil {
			if e := a.Close(); e != nil && err == nil {
				err = e
			}
			p.arenas[i] = nil
		}
	}
	return err
}
