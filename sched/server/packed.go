package server

import (
	"psrt/rdma/mem"
	"psrt/sched/compress"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// pack is what a compressed push carries, and what becomes of it.
type pack struct {
	bytes  []byte // as it came; nil where it is none
	done   bool   // unpacked
	opened *compress.Rows
	keys   []uint64 // of the rows that are in it
	floats []float32
	lens   []int // of the lane's dense blocks
	work   compress.Scratch
}

func (p *pack) reset() { p.bytes, p.done, p.opened = nil, false, nil }

// here says whether all of a push is at hand, and unpacked: of several that have landed
// together (keepFetching) each is when its turn comes in readyWhole.
func (r *request) here() bool {
	return r.fetch.left == 0 && (r.Flags&psmsg.FlagPacked == 0 || r.pack.done)
}

// give notes where a push's gradients lie, packed or not.
func (r *request) give(b []byte) {
	if r.Flags&psmsg.FlagPacked != 0 {
		r.pack.bytes = b
		return
	}
	r.grads = mem.Float32s(b)
}

// packedBytes is the length of a packed push, and another than it says where that
// cannot be: no push, too long, or out of step with its words.
func packedBytes(r *request, spec *table.Spec) uint64 {
	n := r.Values.Len
	if r.Kind != psmsg.KindPush || n%8 != 0 || r.Values.Addr%8 != 0 || n > uint64(compress.MaxRows(int(r.Rows), spec.PushFloats()-spec.Dim, spec.Dim)) {
		return ^n
	}
	return n
}

// packedBytes is likewise of a dense push.
func (d *denseState) packedBytes(r *request) uint64 {
	n := r.Values.Len
	if r.Kind != psmsg.KindPushDense || n%8 != 0 || r.Values.Addr%8 != 0 || n > uint64(compress.MaxBlocks(d.lens(nil))) {
		return ^n
	}
	return n
}

func (d *denseState) lens(to []int) []int {
	for _, b := range d.blocks {
		to = append(to, b.Len)
	}
	return to
}

// unpack makes gradients of a packed push that has come; false where it is none: it
// was refused then.
func (l *lane) unpack(r *request) bool {
	if r.Flags&psmsg.FlagPacked == 0 {
		return true
	}
	var err error
	if r.Kind == psmsg.KindPush {
		err = l.unpackRows(r, &l.tables[r.Table].spec)
	} else {
		err = l.unpackDense(r)
	}
	if err != nil {
		l.refusal = err
		l.refuse(r, psmsg.CodeBadRequest)
	}
	r.pack.done = err == nil
	return err == nil
}

// unpackRows leaves a request for the rows that are in its payload; of one by ticket
// chosenOf takes them.
func (l *lane) unpackRows(r *request, spec *table.Spec) (err error) {
	p := &r.pack
	if p.opened, err = compress.Open(p.bytes, int(r.Rows), spec.PushFloats()-spec.Dim, spec.Dim); err != nil {
		return err
	}
	p.floats = grow(p.floats, p.opened.N*spec.PushFloats())
	p.opened.Decode(p.floats, &p.work)
	r.grads, r.times = p.floats, p.opened.Times
	if !p.opened.All() && r.Flags&psmsg.FlagTicket == 0 {
		p.keys = grow(p.keys, p.opened.N)
		compress.Pick(p.opened, p.keys, r.keys, nil)
		r.keys, r.Rows = p.keys, uint32(p.opened.N)
	}
	return nil
}

// chosenOf leaves, of a ticket's rows, those that a packed push is for.
func (l *lane) chosenOf(t *tableState, r *request, rows []uint32) ([]uint32, bool) {
	p := r.pack.opened
	if r.Flags&psmsg.FlagPacked == 0 || p.All() {
		return rows, true
	}
	if len(rows) != int(r.Rows) {
		return rows, false
	}
	to := l.rowsBuf(p.N)
	var left [1]uint32
	compress.Pick(p, to, rows, func(row uint32) {
		left[0] = row
		t.rows.Release(left[:])
	})
	t.stir(l)
	l.putRows(rows)
	r.Rows = uint32(p.N)
	return to, true
}

// unpackDense writes the lane's blocks of a packed push.
func (l *lane) unpackDense(r *request) error {
	if r.Rows == 0 {
		return nil
	}
	p := &r.pack
	p.lens = l.dense.lens(p.lens[:0])
	p.floats = grow(p.floats, l.dense.floats)
	r.grads = p.floats
	return compress.DecodeBlocks(p.floats, p.lens, p.bytes)
}
