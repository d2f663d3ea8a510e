package ring

import (
	"fmt"

	"psrt/nccl/coll"
	"psrt/nccl/hier"
	"psrt/rdma"
)

// op is one call being made.
type op struct {
	g          *Group
	c          *coll.Call
	send, recv *memory
	mine       header
	direct     bool
	plan       *hier.Plan // where it is added inside hosts first
	block      int        // bytes that one rank gives to another; of an AllToAllV, by rank
	sends      []int
	recvs      []int // offsets of an AllToAllV's blocks, in bytes
}

// locate finds the buffers' memory and works out the blocks. Nothing is sent yet.
func (x *op) locate() (err error) {
	g, c := x.g, x.c
	n := g.place.Size
	switch c.Kind {
	case coll.AllReduce, coll.AllGather:
		x.block = len(c.Send)
	case coll.ReduceScatter, coll.Broadcast:
		x.block = len(c.Recv)
	case coll.AllToAll:
		x.block = len(c.Send) / n
	case coll.AllToAllV:
		x.sends, x.recvs = offsets(c.SendCounts, c.Type.Size()), offsets(c.RecvCounts, c.Type.Size())
	}
	x.direct = x.isDirect()
	x.plan = x.levels()
	x.mine = header{kind: c.Kind, typ: c.Type, op: c.Op, absent: c.Absent, direct: x.direct, levels: x.plan != nil, call: g.call + 1, bytes: uint64(x.block), root: uint32(c.Root)}
	if c.Kind == coll.Barrier || n == 1 {
		return nil
	}
	if x.recv, err = g.find(c.Recv, "Recv"); err != nil || c.Kind == coll.Broadcast {
		x.send = x.recv
		return err
	}
	x.send, err = g.find(c.Send, "Send")
	return err
}

func offsets(counts []int, width int) []int {
	at := make([]int, len(counts)+1)
	for i, n := range counts {
		at[i+1] = at[i] + n*width
	}
	return at
}

// toRank is what this rank gives to rank r by itself.
func (x *op) toRank(r int) []byte {
	c := x.c
	switch c.Kind {
	case coll.AllReduce, coll.AllGather:
		return c.Send
	case coll.Broadcast:
		if c.Root == x.g.place.Rank {
			return c.Recv
		}
	case coll.AllToAllV:
		return c.Send[x.sends[r]:x.sends[r+1]]
	case coll.ReduceScatter, coll.AllToAll:
		return c.Send[r*x.block:][:x.block]
	}
	return nil
}

// fromRank is where rank r's block belongs, where blocks are not combined.
func (x *op) fromRank(r int) []byte {
	c := x.c
	switch c.Kind {
	case coll.AllToAllV:
		return c.Recv[x.recvs[r]:x.recvs[r+1]]
	case coll.AllGather, coll.AllToAll:
		return c.Recv[r*x.block:][:x.block]
	case coll.Broadcast:
		return c.Recv
	}
	return nil
}

// eager says whether what is given to rank r travels within begin.
func (x *op) eager(r int) bool {
	if x.c.Kind == coll.AllToAllV {
		return len(x.toRank(r)) <= x.g.opt.EagerBytes
	}
	return x.block <= x.g.opt.EagerBytes
}

func (x *op) do() error {
	g := x.g
	if g.place.Size == 1 {
		x.alone()
		return nil
	}
	for _, p := range g.around {
		if err := x.begin(p); err != nil {
			return err
		}
	}
	if err := g.wait(func(p *peer) bool { return len(p.inbox) == 0 }); err != nil {
		return err
	}
	for _, p := range g.around {
		if err := x.meet(p); err != nil {
			return err
		}
	}
	if err := x.move(); err != nil {
		return err
	}
	for _, p := range g.around {
		p.release()
	}
	return x.end()
}

// begin tells p of the call, with the block itself where it is small.
func (x *op) begin(p *peer) error {
	h := x.mine
	h.word, h.next = wordBegin, x.g.nextLanding()
	var block []byte
	if x.direct {
		if err := x.lay(p); err != nil {
			return err
		}
	} else if h.within = x.eager(p.rank); h.within {
		if block = x.toRank(p.rank); h.absent && h.kind.Reduces() {
			block = nil
		}
	} else {
		h.send, h.recv = x.send.remote(p.domain, x.toRank(p.rank)), x.recv.remote(p.domain, x.c.Recv)
	}
	return x.g.say(p, &h, block)
}

// say sends a message.
func (g *Group) say(p *peer, h *header, block []byte) error {
	slot := p.nextSend
	p.nextSend = (slot + 1) % messageSlots
	if err := g.wait(func(q *peer) bool { return q == p && !p.free[slot] }); err != nil {
		return err
	}
	b := p.sends[slot][:headerBytes+len(block)]
	h.payload = uint32(len(block))
	h.encode(b)
	copy(b[headerBytes:], block)
	p.free[slot] = false
	return g.post(p, &rdma.WR{ID: requestID(p.rank, idSend, slot), Op: rdma.OpSend, Signaled: true, Local: b})
}

// post waits for room where there is none.
func (g *Group) post(p *peer, wr *rdma.WR) error {
	if p.posted >= messageSlots+dataDepth {
		if err := g.wait(func(q *peer) bool { return q == p && p.posted >= messageSlots+dataDepth }); err != nil {
			return err
		}
	}
	n, err := p.ep.Post([]rdma.WR{*wr})
	if err == nil && n != 1 {
		err = fmt.Errorf("ring: rank %d: an endpoint of %d requests took no more than %d", p.rank, messageSlots+dataDepth, p.posted)
	}
	if err != nil {
		if p.err == nil {
			p.err = err
		}
		return g.lost(p)
	}
	p.posted++
	return nil
}

// meet takes p's begin and holds it against this rank's.
func (x *op) meet(p *peer) error {
	a := p.inbox[0]
	p.inbox = p.inbox[:copy(p.inbox, p.inbox[1:])]
	p.head, p.held, p.came, p.next = a.head, a.slot, 0, a.head.next
	p.payload = p.recvs[a.slot][headerBytes:a.size]
	bad := func(format string, args ...any) error {
		return &coll.RankError{Rank: p.rank, Fault: coll.Differs, Cause: fmt.Errorf(format, args...)}
	}
	if a.head.word != wordBegin {
		return bad("%w: it has ended call %d, here it begins", errProtocol, a.head.call)
	}
	if how := a.head.differs(&x.mine); how != "" {
		return bad("%s", how)
	}
	if a.head.direct != x.direct {
		return bad("its Options.LandingBytes is another")
	}
	if a.head.levels != x.mine.levels {
		return bad("it names other hosts, or its Options.HostBytes is another")
	}
	if x.direct {
		return nil
	}
	want := x.block
	switch {
	case x.c.Kind == coll.AllToAllV:
		want = len(x.fromRank(p.rank))
	case x.c.Kind == coll.Broadcast && p.rank != x.c.Root, a.head.absent && a.head.within:
		want = 0
	}
	got, recv := len(p.payload), uint64(0)
	if !a.head.within {
		got = int(min(a.head.send.Len, 1<<62))
		switch recv = uint64(len(x.c.Recv)); x.c.Kind {
		case coll.AllToAllV:
			recv = a.head.recv.Len // nobody writes there
		}
	}
	switch {
	case got != want:
		return bad("it gives %d bytes, want %d", got, want)
	case !a.head.within && a.head.recv.Len != recv:
		return bad("it takes %d bytes, here they are %d", a.head.recv.Len, recv)
	case x.c.Kind != coll.AllToAllV && a.head.within != x.eager(p.rank):
		return bad("its Options.EagerBytes is another")
	}
	return nil
}

// move moves the bytes.
func (x *op) move() error {
	switch x.c.Kind {
	case coll.Barrier:
		return nil
	case coll.AllReduce, coll.ReduceScatter:
		switch {
		case x.direct:
			return x.combineDirect()
		case x.eager(0):
			x.combineEager()
			return nil
		case x.plan != nil:
			return x.combineLevels()
		}
		return x.combine(x.reduction())
	case coll.Broadcast:
		switch {
		case x.eager(0):
			if x.c.Root != x.g.place.Rank {
				copy(x.c.Recv, x.g.peers[x.c.Root].payload)
			}
			return nil
		case x.c.Root == x.g.place.Rank:
			return nil
		}
		return x.combine(x.spread())
	}
	return x.fetch()
}

// end tells those that lent memory to this rank that it is done, and waits for those
// to which this rank lent.
func (x *op) end() error {
	g := x.g
	done := x.mine
	done.word, done.absent = wordDone, false
	for _, p := range g.around {
		if !p.head.within && x.lends(p) {
			if err := g.say(p, &done, nil); err != nil {
				return err
			}
		}
	}
	lent := func(p *peer) bool { return x.lends(p) && !x.eager(p.rank) }
	// A rank whose done is here owes nothing: it leaves when it has this one's, and so
	// all that was written to it, be that acknowledged or not.
	left := func(p *peer) bool { return p.err != nil || p.gone.Load() }
	if err := g.wait(func(p *peer) bool {
		return lent(p) && len(p.inbox) == 0 || !left(p) && (p.mapped && p.posted > 0 || p.data > 0)
	}); err != nil {
		return err
	}
	for _, p := range g.around {
		p.send, p.recv = nil, nil
		if !lent(p) {
			continue
		}
		if err := g.take(p, wordDone); err != nil {
			return err
		}
	}
	return nil
}

// take takes a word that has come.
func (g *Group) take(p *peer, want word) error {
	a := p.inbox[0]
	p.inbox = p.inbox[:copy(p.inbox, p.inbox[1:])]
	if a.head.word != want || a.head.call != g.call {
		return &coll.RankError{Rank: p.rank, Fault: coll.Differs, Cause: fmt.Errorf("%w: word %d of call %d, want word %d of call %d", errProtocol, a.head.word, a.head.call, want, g.call)}
	}
	p.listen(a.slot)
	return nil
}

// lends says whether p reads here, or writes, until its done: in a call that is made
// inside hosts first, who is not of this rank's part is done with its result.
func (x *op) lends(p *peer) bool {
	return !x.direct && (x.plan == nil || x.mate(p.rank))
}
