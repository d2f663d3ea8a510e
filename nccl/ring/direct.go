package ring

import (
	"psrt/nccl/coll"
	"psrt/rdma"
)

// Between two ranks a vector need not be cut: each sends all of its own, as many bytes
// as it would send of one half and of the other half's sum. So it can be written at
// once, where the other said in the call before that there is room, and the call is
// over when both have begun: nobody asks, and nothing is given back. Beyond directMost
// the pieces of a call overlap better: one is folded while the next one comes.
//
// A rank has room for two calls. It writes for call n+1 when the other has begun call
// n, and so is done with call n-1, whose room that is.
const directMost = 2 << 20

// isDirect says whether the call is made so: of what both know.
func (x *op) isDirect() bool {
	g := x.g
	if x.c.Kind != coll.AllReduce || g.place.Size != 2 || g.landing == nil || x.eager(0) {
		return false
	}
	most := min(uint64(directMost), g.nextLanding().Len, g.around[0].next.Len)
	return uint64(x.block) <= most
}

// room is where the other's block of a call lies.
func (g *Group) room(call uint64) []byte {
	half := g.half()
	return g.landing.Bytes()[half*(call%2):][:half]
}

func (g *Group) half() uint64 { return uint64(len(g.landing.Bytes())) / 2 &^ 63 }

// nextLanding is what the other may write to in the call after the one that begins.
func (g *Group) nextLanding() rdma.RemoteRange {
	if g.place.Size != 2 || g.landed == nil {
		return rdma.RemoteRange{}
	}
	half := g.half()
	return g.landed.Remote().Slice(half*((g.call+1)%2), half)
}

// lay writes the block, in one request where the transport takes it: over TCP each further
// one is a system call and an acknowledgement.
func (x *op) lay(p *peer) error {
	if x.c.Absent {
		return nil
	}
	for at := 0; at < x.block; at += p.most {
		end := min(at+p.most, x.block)
		wr := rdma.WR{ID: requestID(p.rank, idWrite, 0), Op: rdma.OpWrite, Signaled: true, Local: x.c.Send[at:end],
			Remote: p.next.Slice(uint64(at), uint64(end-at))}
		if err := x.g.postData(p, &wr); err != nil {
			return err
		}
	}
	return nil
}

// combineDirect folds what was written.
func (x *op) combineDirect() error {
	p := x.g.around[0]
	if len(x.c.Send) > 0 && &x.c.Send[0] == &x.c.Recv[0] { // it may be on its way yet
		if err := x.g.wait(func(p *peer) bool { return p.data > 0 }); err != nil {
			return err
		}
	}
	srcs := make([][]byte, 2)
	if !x.c.Absent {
		srcs[x.g.place.Rank] = x.c.Send
	}
	if x.present(p.rank) {
		srcs[p.rank] = x.g.room(x.g.call)[:x.block]
	}
	j := x.job()
	j.Run([][]byte{x.c.Recv}, srcs)
	return nil
}
