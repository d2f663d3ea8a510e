//go:build cgo

package gpu

import (
	"encoding/binary"
	"fmt"

	"psrt/csrc/cuda"
	"psrt/csrc/fold"
	"psrt/csrc/nccl"
	"psrt/nccl/coll"
)

// op is one call being made.
type op struct {
	g          *Group
	c          *coll.Call
	send, recv *memory
	block      int // bytes that one rank gives to another; of an AllToAllV, by rank
	absent     []bool
	present    int // how many are
}

// locate finds the buffers' memory. Nothing is sent yet.
func (x *op) locate() (err error) {
	g, c := x.g, x.c
	switch c.Kind {
	case coll.Barrier:
		return nil
	case coll.AllReduce, coll.AllGather:
		x.block = len(c.Send)
	case coll.ReduceScatter, coll.Broadcast:
		x.block = len(c.Recv)
	case coll.AllToAll:
		x.block = len(c.Send) / g.Size()
	}
	if x.recv, err = g.find(c.Recv, "Recv"); err != nil {
		return err
	}
	if c.Kind == coll.Broadcast {
		x.send = x.recv
	} else if x.send, err = g.find(c.Send, "Send"); err != nil {
		return err
	}
	for _, m := range []*memory{x.send, x.recv} {
		if m != nil {
			m.known.tell(g, m.at, len(m.Bytes()))
		}
	}
	return nil
}

func (x *op) do() error {
	if err := x.meet(); err != nil {
		return err
	}
	switch {
	case x.c.Kind == coll.Barrier:
		return nil
	case x.c.Kind == coll.AllToAllV:
		return x.exchangeV()
	case x.block == 0:
		return nil
	case x.c.Kind.Reduces():
		return x.reduce()
	}
	return x.move()
}

// meet holds this rank's call against the others'.
func (x *op) meet() error {
	g, c := x.g, x.c
	mine := word{kind: c.Kind, typ: c.Type, op: c.Op, absent: c.Absent, anyOrder: g.opt.AnyOrder, refused: g.refused, block: uint64(x.block), root: uint64(c.Root), at: g.calls}
	mine.encode(g.table.mine(wordBytes))
	if err := g.exchange(wordBytes); err != nil {
		return err
	}
	var first word
	refused := false
	x.absent = make([]bool, g.Size())
	for r := range x.absent {
		var w word
		if w.decode(g.table.of(r, wordBytes)); r == 0 {
			first = w
		}
		if how := w.differs(&first); how != "" {
			return &coll.RankError{Rank: r, Fault: coll.Differs, Cause: fmt.Errorf("%s", how)}
		}
		if x.absent[r] = w.absent; !w.absent {
			x.present++
		}
		refused = refused || w.refused
	}
	if refused && !g.plain.Load() {
		x.plainly()
	}
	return nil
}

// exchange has all ranks say n bytes, in what is left of the call's time.
func (g *Group) exchange(n int) error { return g.table.exchange(n, g.left()) }

// copying is from the host to the card, or back.
type copying struct {
	host []byte
	at   cuda.Ptr
}

// through copies to the card, has NCCL work there, and copies back.
func (x *op) through(ins, outs []copying, work func() error) error {
	g := x.g
	for _, in := range ins {
		if len(in.host) > 0 {
			if err := g.stream.ToDevice(in.at, in.host); err != nil {
				return err
			}
		}
	}
	if err := g.in(work); err != nil {
		return g.accuse(err)
	}
	if g.comm.Busy() { // else it was taken at once, and what fails is asked for when copies are over
		if err := g.settle(); err != nil {
			return err
		}
	}
	if len(outs) > 0 && x.recv != nil && !x.recv.pinned { // see memory.pinned
		if err := g.stream.Record(g.event); err != nil {
			return err
		}
		if err := g.watch(g.event.Passed); err != nil {
			return err
		}
	}
	for _, out := range outs {
		if len(out.host) > 0 {
			if err := g.stream.ToHost(out.host, out.at); err != nil {
				return err
			}
		}
	}
	if err := g.stream.Record(g.event); err != nil {
		return err
	}
	if err := g.watch(g.event.Passed); err != nil {
		return err
	}
	if _, err := g.comm.State(); err != nil { // then what has come is nothing
		return g.accuse(err)
	}
	return nil
}

// move is what combines nothing.
func (x *op) move() error {
	g, c := x.g, x.c
	out := []copying{{c.Recv, x.recv.on(c.Recv)}}
	switch c.Kind {
	case coll.AllGather:
		return x.through([]copying{{c.Send, x.send.on(c.Send)}}, out, func() error {
			return g.comm.AllGather(g.stream.Raw(), uint64(x.send.on(c.Send)), uint64(x.recv.on(c.Recv)), len(c.Send), nccl.U8)
		})
	case coll.Broadcast:
		in := out
		if c.Root == g.Rank() {
			out = nil
		} else {
			in = nil
		}
		return x.through(in, out, func() error {
			return g.comm.Broadcast(g.stream.Raw(), uint64(x.recv.on(c.Recv)), len(c.Recv), nccl.U8, c.Root)
		})
	}
	parts := make([]nccl.Part, g.Size())
	for r := range parts {
		at, n := r*x.block, uint64(x.block)
		parts[r] = nccl.Part{Send: uint64(x.send.on(c.Send).Add(at)), Sends: n, Recv: uint64(x.recv.on(c.Recv).Add(at)), Recvs: n}
	}
	return x.exchangeParts([]copying{{c.Send, x.send.on(c.Send)}}, out, parts)
}

func (x *op) exchangeParts(ins, outs []copying, parts []nccl.Part) error {
	return x.through(ins, outs, func() error { return x.g.comm.Exchange(x.g.stream.Raw(), parts, nccl.U8) })
}

// exchangeV learns what the others send before anything is received.
func (x *op) exchangeV() error {
	g, c := x.g, x.c
	n, width := g.Size(), c.Type.Size()
	for r, count := range c.SendCounts {
		binary.LittleEndian.PutUint64(g.table.mine(8 * n)[8*r:], uint64(count))
	}
	if err := g.exchange(8 * n); err != nil {
		return err
	}
	parts := make([]nccl.Part, n)
	send, recv, some := x.send.on(c.Send), x.recv.on(c.Recv), false
	for r := range parts {
		if says := binary.LittleEndian.Uint64(g.table.of(r, 8*n)[8*g.Rank():]); says != uint64(c.RecvCounts[r]) {
			return &coll.RankError{Rank: r, Fault: coll.Differs, Cause: fmt.Errorf("it gives rank %d %d elements, which wants %d", g.Rank(), says, c.RecvCounts[r])}
		}
		out, in := c.SendCounts[r]*width, c.RecvCounts[r]*width
		parts[r] = nccl.Part{Send: uint64(send), Sends: uint64(out), Recv: uint64(recv), Recvs: uint64(in)}
		send, recv, some = send.Add(out), recv.Add(in), some || out+in > 0
	}
	if !some {
		return nil
	}
	return x.exchangeParts([]copying{{c.Send, x.send.on(c.Send)}}, []copying{{c.Recv, x.recv.on(c.Recv)}}, parts)
}

// native says whether NCCL's own reduction gives what is promised. Of two ranks an
// addition has one order only.
func (x *op) native() bool {
	c := x.c
	switch {
	case x.present < x.g.Size():
		return false
	case x.g.opt.AnyOrder || c.Type < coll.F16:
		return true
	}
	return x.g.Size() <= 2 && c.Op != coll.Min && c.Op != coll.Max // which tell zeros apart
}

func (x *op) reduce() error {
	switch {
	case x.present == 0:
		clear(x.c.Recv)
		return nil
	case !x.native():
		return x.fold()
	}
	g, c := x.g, x.c
	t, o := types[c.Type], operations[c.Op]
	count := len(c.Recv) / c.Type.Size()
	send, recv := x.send.on(c.Send), x.recv.on(c.Recv)
	err := x.through([]copying{{c.Send, send}}, []copying{{c.Recv, recv}}, func() error {
		if c.Kind == coll.ReduceScatter {
			return g.comm.ReduceScatter(g.stream.Raw(), uint64(send), uint64(recv), count, t, o)
		}
		return g.comm.AllReduce(g.stream.Raw(), uint64(send), uint64(recv), count, t, o)
	})
	if err == nil && c.Op == coll.Avg {
		j := fold.Job{Type: c.Type, Op: fold.Sum, Divide: g.Size()}
		j.Run([][]byte{c.Recv}, [][]byte{c.Recv})
	}
	return err
}

// fold makes a reduction in the group's order: each rank gets a segment of all, adds it,
// and gives the result to all. Absent ranks send nothing.
func (x *op) fold() error {
	g, c := x.g, x.c
	n, me, width := g.Size(), g.Rank(), c.Type.Size()
	seg := x.block
	if c.Kind == coll.AllReduce {
		seg = (x.block/width + n - 1) / n * width
	}
	of := func(r int) int { // bytes that are rank r's to add
		if c.Kind == coll.ReduceScatter {
			return seg
		}
		return max(0, min(seg, x.block-r*seg))
	}
	if err := x.room(2*n*seg, (n+1)*seg); err != nil {
		return err
	}
	parts, srcs, host := make([]nccl.Part, n), make([][]byte, n), g.scratch.host
	var in []copying
	for r := range parts {
		p := &parts[r]
		if !c.Absent {
			p.Send, p.Sends = uint64(x.send.on(c.Send).Add(r*seg)), uint64(of(r))
		}
		if !x.absent[r] {
			p.Recv, p.Recvs = uint64(g.scratch.card.Add(r*seg)), uint64(of(me))
			srcs[r] = host[r*seg:][:of(me)]
		}
	}
	if !c.Absent {
		in = []copying{{c.Send, x.send.on(c.Send)}}
	}
	if err := x.exchangeParts(in, []copying{{host[:n*seg], g.scratch.card}}, parts); err != nil {
		return err
	}
	result := host[n*seg:][:seg]
	if c.Kind == coll.ReduceScatter {
		result = c.Recv
	}
	j := fold.Job{Type: c.Type, Op: fold.Op(c.Op), Order: g.opt.Order}
	if c.Op == coll.Avg {
		j.Op, j.Divide = fold.Sum, x.present
	}
	j.Run([][]byte{result[:of(me)]}, srcs)
	if c.Kind == coll.ReduceScatter {
		return nil
	}
	out := g.scratch.card.Add(n * seg)
	return x.through([]copying{{result, g.scratch.card}}, []copying{{c.Recv, out}}, func() error {
		return g.comm.AllGather(g.stream.Raw(), uint64(g.scratch.card), uint64(out), seg, nccl.U8)
	})
}

// types and operations by NCCL's numbers.
var (
	types = map[coll.Type]nccl.Type{coll.I8: nccl.I8, coll.U8: nccl.U8, coll.I32: nccl.I32, coll.U32: nccl.U32, coll.I64: nccl.I64,
		coll.U64: nccl.U64, coll.F16: nccl.F16, coll.BF16: nccl.BF16, coll.F32: nccl.F32, coll.F64: nccl.F64}
	operations = map[coll.Op]nccl.Op{coll.Sum: nccl.Sum, coll.Avg: nccl.Sum, coll.Prod: nccl.Prod, coll.Min: nccl.Min, coll.Max: nccl.Max}
)
