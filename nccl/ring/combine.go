package ring

import (
	"psrt/csrc/fold"
	"psrt/nccl/coll"
	"psrt/nccl/hier"
	"psrt/rdma"
)

// reduction is the part of a call that this rank combines: n bytes, which begin at
// sendAt of the sources' buffers and belong at recvAt of the destinations'.
type reduction struct {
	n, sendAt, recvAt int
	from, to          func(rank int) bool
	own               []byte // this rank's source, from its first byte; nil none
	results           bool   // the sources lie in the ranks' Recv, not in their Send
	// place is a rank's among the operands of job, which are so many; nil: its number.
	place    func(rank int) int
	operands int
	job      fold.Job
	past     int // bytes of the whole vector
}

// job is the arithmetic of the call; present counts the ranks that give something.
func (x *op) job() fold.Job {
	j := fold.Job{Type: x.c.Type, Op: fold.Op(x.c.Op), Order: x.g.place.Order}
	if x.c.Op == coll.Avg {
		j.Op = fold.Sum
		for r := range x.g.place.Size {
			if x.present(r) {
				j.Divide++
			}
		}
	}
	return j
}

func (x *op) present(r int) bool {
	if r == x.g.place.Rank {
		return !x.c.Absent
	}
	return !x.g.peers[r].head.absent
}

func anyRank(int) bool { return true }

// reduction is this rank's segment of an all-reduce, or its block of a
// reduce-scatter.
func (x *op) reduction() reduction {
	r := reduction{from: x.present, job: x.job()}
	if !x.c.Absent {
		r.own = x.c.Send
	}
	me := x.g.place.Rank
	if x.c.Kind == coll.ReduceScatter {
		// What a peer names is only the block of this rank.
		r.n, r.to, r.past = x.block, func(p int) bool { return p == me }, len(x.c.Send)
		if r.own != nil {
			r.own = r.own[me*x.block:]
		}
		return r
	}
	first, end := hier.Segment(x.block, me, x.g.place.Size)
	r.n, r.sendAt, r.recvAt, r.to, r.past = end-first, first, first, anyRank, x.block
	return r
}

// spread is this rank's segment of a broadcast: it takes it from the root and gives
// it to all others but the root, so that nobody sends the whole several times.
func (x *op) spread() reduction {
	root, me := x.c.Root, x.g.place.Rank
	i := me
	if me > root {
		i--
	}
	first, end := hier.Segment(x.block, i, x.g.place.Size-1)
	return reduction{
		n: end - first, sendAt: first, recvAt: first, past: x.block,
		from: func(r int) bool { return r == root }, to: func(r int) bool { return r != root },
		job: fold.Job{Type: x.c.Type, Order: x.g.place.Order},
	}
}

// combineEager folds what came within the messages. Everyone folds everything.
func (x *op) combineEager() {
	srcs := make([][]byte, x.g.place.Size)
	for r := range srcs {
		if !x.present(r) {
			continue
		}
		if p := x.g.peers[r]; p != nil {
			srcs[r] = p.payload
		} else {
			srcs[r] = x.toRank(r)
		}
	}
	j := x.job()
	j.Run([][]byte{x.c.Recv}, srcs)
}

// alone is a group of one.
func (x *op) alone() {
	c := x.c
	switch {
	case c.Kind == coll.Barrier || c.Kind == coll.Broadcast:
	case c.Absent && c.Kind.Reduces():
		clear(c.Recv)
	default:
		copy(c.Recv, c.Send)
	}
}

// pieceBytes is what is folded at a time where all is mapped: between two pieces the
// group looks whether it is broken.
const pieceBytes = 1 << 20

// combine does r.
func (x *op) combine(r reduction) error {
	if r.n == 0 {
		return nil
	}
	r.job.Past = r.past >= x.g.opt.PastBytes
	if r.place == nil {
		r.place, r.operands = func(rank int) int { return rank }, x.g.place.Size
	}
	far := false
	for _, p := range x.g.around {
		if p.mapped {
			if err := x.mapPeer(p, &r); err != nil {
				return err
			}
			continue
		}
		far = far || r.from(p.rank) || r.to(p.rank)
	}
	if far {
		return x.combineFar(&r)
	}
	return x.combineNear(&r)
}

// source is where p's operand lies.
func (r *reduction) source(p *peer) rdma.RemoteRange {
	if r.results {
		return p.head.recv
	}
	return p.head.send
}

// mapPeer maps what is used of p's buffers.
func (x *op) mapPeer(p *peer, r *reduction) (err error) {
	if from := r.source(p); r.from(p.rank) && from.Len > 0 {
		p.send, err = p.ep.Map(from.Slice(uint64(r.sendAt), uint64(r.n)))
	}
	if r.to(p.rank) && err == nil {
		p.recv, err = p.ep.Map(p.head.recv.Slice(uint64(r.recvAt), uint64(r.n)))
	}
	if err != nil {
		p.err = err
		return x.g.lost(p)
	}
	return nil
}

// combineNear reads and writes all memories where they lie.
func (x *op) combineNear(r *reduction) error {
	srcs, dsts := make([][]byte, r.operands), make([][]byte, 0, x.g.place.Size)
	for at := 0; at < r.n; at += pieceBytes {
		end := min(at+pieceBytes, r.n)
		dsts = x.near(r, at, end, srcs, dsts[:0])
		r.job.Run(dsts, srcs)
		if err := x.g.Err(); err != nil {
			return err
		}
	}
	return nil
}

// near fills in the operands of [at, end) that are here or mapped.
func (x *op) near(r *reduction, at, end int, srcs, dsts [][]byte) [][]byte {
	me := x.g.place.Rank
	clear(srcs)
	if r.own != nil {
		srcs[r.place(me)] = r.own[r.sendAt+at : r.sendAt+end]
	}
	if r.to(me) {
		dsts = append(dsts, x.c.Recv[r.recvAt+at:r.recvAt+end])
	}
	for _, p := range x.g.around {
		if !p.mapped {
			continue
		}
		if r.from(p.rank) {
			srcs[r.place(p.rank)] = p.send[at:end]
		}
		if r.to(p.rank) {
			dsts = append(dsts, p.recv[at:end])
		}
	}
	return dsts
}

// combineFar reads chunks of those whose memory is not mapped ahead into landing
// memory, folds them as they come, and writes the results.
func (x *op) combineFar(r *reduction) error {
	g := x.g
	var from, to []*peer
	chunk := g.opt.ChunkBytes
	for _, p := range g.around {
		if p.mapped {
			continue
		}
		chunk = min(chunk, p.chunk)
		if r.from(p.rank) {
			from = append(from, p)
			p.came = 0
		}
		if r.to(p.rank) {
			to = append(to, p)
		}
	}
	chunk = max(min(chunk, g.opt.LandingBytes/max(len(from), 1)/2&^63), 64)
	depth := min(max(g.opt.LandingBytes/(chunk*max(len(from), 1)), 1), dataDepth/2)
	place := func(k, i int) []byte { // of chunk k, of the i-th source
		at := (k%depth*len(from) + i) * chunk
		return g.landing.Bytes()[at : at+chunk]
	}
	srcs, dsts := make([][]byte, r.operands), make([][]byte, 0, g.place.Size)
	chunks := (r.n + chunk - 1) / chunk
	asked := 0
	for k := range chunks {
		for ; asked < min(chunks, k+depth); asked++ {
			at := asked * chunk
			n := min(chunk, r.n-at)
			for i, p := range from {
				if err := x.read(p, r.source(p).Slice(uint64(r.sendAt+at), uint64(n)), place(asked, i)[:n]); err != nil {
					return err
				}
			}
		}
		if err := g.wait(func(p *peer) bool { return !p.mapped && r.from(p.rank) && p.came <= k }); err != nil {
			return err
		}
		at, end := k*chunk, min((k+1)*chunk, r.n)
		dsts = x.near(r, at, end, srcs, dsts[:0])
		for i, p := range from {
			srcs[r.place(p.rank)] = place(k, i)[:end-at]
		}
		r.job.Run(dsts, srcs)
		for _, p := range to {
			wr := rdma.WR{ID: requestID(p.rank, idWrite, 0), Op: rdma.OpWrite, Signaled: true, Local: x.c.Recv[r.recvAt+at : r.recvAt+end],
				Remote: p.head.recv.Slice(uint64(r.recvAt+at), uint64(end-at))}
			if err := g.postData(p, &wr); err != nil {
				return err
			}
		}
	}
	return nil
}

// read posts one.
func (x *op) read(p *peer, from rdma.RemoteRange, into []byte) error {
	return x.g.postData(p, &rdma.WR{ID: requestID(p.rank, idRead, 0), Op: rdma.OpRead, Signaled: true, Local: into, Remote: from})
}

func (g *Group) postData(p *peer, wr *rdma.WR) error {
	if err := g.post(p, wr); err != nil {
		return err
	}
	p.data++
	return nil
}
