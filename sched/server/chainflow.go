package server

import (
	"encoding/binary"
	"slices"
	"time"

	"psrt/rdma/mem"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
)

// A large push flows through the head: it gets its place in the order when its keys and
// the first of its gradients are there, and goes on to the next member while the rest is
// still coming. All that is ordered after it waits for it, so only the push of one that
// pushes alone flows, and it is given up, its place left empty, when others have waited
// for flowPatience: it is ordered again when all of it is there.

const (
	// flowLeast is the shortest body that flows: below, the whole is there soon.
	flowLeast = 128 << 10
	// flowPiece is how much is handed on at a time. It is also how long reads are where
	// nobody grants them, so that they land piece by piece.
	flowPiece = 64 << 10
	// flowMost is likewise, where more of the same session's waits behind: then it is the
	// work for a piece that counts, and not how soon it is there. What comes is handed on
	// flowEvery after the piece before, or when the next of it comes.
	flowMost  = 256 << 10
	flowEvery = 15 * time.Millisecond
	// flowPatience is longer than a megabyte takes at 100 Mbit/s.
	flowPatience = 100 * time.Millisecond
	// flowRest is how many pushes of a session do not flow after one that was given up.
	flowRest = 64
)

// flowing is the push that is ordered and has not all come.
type flowing struct {
	r      *request // nil: there is none
	seq    uint64
	gave   int       // bytes of gradients that the machine has
	at     time.Time // since then
	blocks time.Time // since when others wait for it, zero: nobody does
}

// come says how many bytes of a push's gradients have landed, -1: not even all keys.
func (r *request) come() int {
	f := &r.fetch
	keys := f.total - 4*int64(len(r.grads)) // what is fetched before them
	return int(max(f.total-f.left-keys, -1))
}

// mayFlow says whether a push may be ordered before all of it is here, and enough of it
// is. What is packed cannot be judged before.
func (c *chained) mayFlow(r *request) bool {
	return r.Kind == psmsg.KindPush && r.Flags&(psmsg.FlagPacked|psmsg.FlagInlineGrads) == 0 && r.fetch.left > 0 && r.s.plain == 0 &&
		r.come() >= flowPiece && c.bodySize(r) >= flowLeast && c.fits(r) == nil
}

// landed says whether what has landed of a request gives takePushes something to do.
func (c *chained) landed(r *request) bool {
	if c.flow.r == nil {
		return c.mayFlow(r)
	}
	return c.flow.r == r && r.come() >= c.flow.next(c.l.began)
}

// next is how many bytes must have come for a piece to be handed on.
func (f *flowing) next(now time.Time) int {
	if len(f.r.s.order) > 1 && now.Sub(f.at) < flowEvery {
		return f.gave + flowMost
	}
	return f.gave + flowPiece
}

// beginFlow orders the push that is coming of the only session that pushes.
func (c *chained) beginFlow() {
	if c.flow.r != nil || len(c.calls) > 0 {
		return
	}
	var r *request
	for _, s := range c.l.current {
		if s == nil || s.broken || len(s.order) == 0 {
			continue
		}
		if r != nil {
			return
		}
		r = s.order[0]
	}
	if r == nil || !c.mayFlow(r) || r.Flags&psmsg.FlagTicket != 0 && !c.redeem(r) {
		return // a stale ticket is answered when the push is whole
	}
	h := c.header(r)
	c.lease()
	if c.m.Judge(c.m.Epoch(), &h) != chain.Ordered {
		return
	}
	n := r.come()
	b := c.beginBody(r, h.Size)
	b = append(append(b, mem.Bytes(r.keys)...), mem.Bytes(r.grads)[:n]...)
	if seq, v := c.m.Submit(c.m.Epoch(), h, b); v == chain.Ordered {
		c.flow = flowing{r: r, seq: seq, gave: n, at: time.Now()}
		c.flowed++
	}
}

// header is a push's, as an op.
func (c *chained) header(r *request) chain.Header {
	return chain.Header{Kind: chain.Push, Worker: uint32(r.s.worker), Client: r.s.client, Push: r.Seq, Size: c.bodySize(r)}
}

// beginBody is a body's header, with room for the rest.
func (c *chained) beginBody(r *request, size int) []byte {
	b := make([]byte, bodyHeader, size)
	b[0], b[1] = byte(r.Kind), byte(r.Flags&bodyFlags)
	le := binary.LittleEndian
	le.PutUint32(b[4:], r.Table)
	le.PutUint64(b[8:], r.Clock)
	le.PutUint32(b[16:], r.Rows)
	return b
}

// goOn hands on what has come of the push that flows.
func (c *chained) goOn() {
	f := c.flow
	r := f.r
	if r == nil {
		return
	}
	now := time.Now()
	whole, n := r.fetch.left == 0, r.come()
	if !whole && n < f.next(now) {
		return
	}
	more := mem.Bytes(r.grads)[f.gave:n]
	c.flow.gave, c.flow.at = n, now
	if whole {
		c.flow = flowing{}
		r.s.removePush(r)
		c.wait(r)
	}
	c.m.More(f.seq, more)
}

// wait has a push that is ordered wait for its answer.
func (c *chained) wait(r *request) {
	r.keys, r.grads = nil, nil
	c.waiting[r.s.worker] = append(c.waiting[r.s.worker], r)
}

// holdsUp notes whether anybody waits for the push that flows; for how long they do is
// limited.
func (c *chained) holdsUp(others bool) {
	f := &c.flow
	switch now := time.Now(); {
	case f.r == nil:
	case !others:
		f.blocks = time.Time{}
	case f.blocks.IsZero():
		f.blocks = now
	case now.Sub(f.blocks) >= flowPatience:
		f.r.s.plain = flowRest
		c.endFlow()
	}
}

// endFlow takes the push that flows out of the order. Its session keeps it.
func (c *chained) endFlow() {
	if f := c.flow; f.r != nil {
		c.flow = flowing{}
		c.m.Abort(f.seq)
	}
}

// forgetSession takes back what a session waits for: its ops stay in the order, and its
// worker asks again.
func (c *chained) forgetSession(s *session) {
	if c.flow.r != nil && c.flow.r.s == s {
		c.endFlow()
	}
	c.waiting[s.worker] = slices.DeleteFunc(c.waiting[s.worker], func(r *request) bool { return r.s == s })
}
