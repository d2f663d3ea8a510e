package server

import (
	"fmt"
	"time"

	"psrt/rdma"
	"psrt/sched/fanin"
	"psrt/sched/psmsg"
)

// fetch is what a request's payload still lacks: ranges of the worker's memory
// and where they go. Seen from the policy they are one transfer, whose bytes
// are counted through them in order.
type fetch struct {
	parts []fetchPart
	total int64
	left  int64  // not landed; the request is ready at 0
	id    uint64 // as announced; 0: not announced
}

type fetchPart struct {
	local  []byte
	remote rdma.RemoteRange
}

func (f *fetch) reset() {
	clear(f.parts)
	*f = fetch{parts: f.parts[:0]}
}

func (f *fetch) add(local []byte, remote rdma.RemoteRange) {
	f.parts = append(f.parts, fetchPart{local, remote})
	f.total += int64(len(local))
}

// cut calls do for the pieces of [off, off+n), each in one part.
func (f *fetch) cut(off, n int64, do func(local []byte, remote rdma.RemoteRange)) {
	for _, p := range f.parts {
		size := int64(len(p.local))
		if off < size && n > 0 {
			k := min(size-off, n)
			do(p.local[off:off+k], p.remote.Slice(uint64(off), uint64(k)))
			n -= k
			off = 0
			continue
		}
		off = max(off-size, 0)
	}
}

// begin fetches what a request lacks: at once where it is small or nobody
// grants, else as granted. The request is the announcement.
func (l *lane) begin(r *request) {
	f := &r.fetch
	f.left = f.total
	if f.total == 0 {
		l.ready(r)
		return
	}
	s := r.s
	if s.link == nil || f.total <= eagerBytes {
		piece := f.total
		if l.chain != nil {
			piece = flowPiece
		}
		for at := int64(0); at < f.total; at += piece {
			f.cut(at, min(piece, f.total-at), func(local []byte, remote rdma.RemoteRange) { s.read(local, remote, r.slot) })
		}
		return
	}
	kind := fanin.Push
	if r.Kind != psmsg.KindPush && r.Kind != psmsg.KindPushDense {
		kind = fanin.Pull
	}
	l.lastFetch++
	f.id = l.lastFetch*psmsg.Slots + uint64(r.slot)
	if err := s.link.announce(s, f.id, f.total, kind); err != nil {
		s.broken = true
		l.drop(s, fmt.Errorf("server: worker %d: %w", s.worker, err))
	}
}

// fetched notes that a part of a request's payload has landed and says whether
// it is whole.
func (l *lane) fetched(r *request, bytes int) bool {
	f := &r.fetch
	if !r.busy || f.left == 0 || bytes <= 0 || int64(bytes) > f.left {
		return false
	}
	f.left -= int64(bytes)
	r.landed(bytes, 0)
	if s := r.s; f.id != 0 {
		if err := s.link.landed(s, f.id, bytes); err != nil {
			s.broken = true // our books disagree with the policy's
		}
	}
	return f.left == 0
}

// fetchGranted posts the reads that were granted to this lane's sessions, by
// whichever lane. It drops nobody: keepFetching calls it while gradients are in
// use.
func (l *lane) fetchGranted() {
	for _, k := range l.links {
		k.due(l)
	}
	if !l.granted.Swap(false) {
		return
	}
	for _, k := range l.links {
		l.inbox = k.take(l, l.inbox[:0])
		for i := 0; i < len(l.inbox); {
			g := l.inbox[i]
			for i++; i < len(l.inbox) && l.inbox[i].follows(g); i++ {
				g.Bytes += l.inbox[i].Bytes // one message is cheaper than two
			}
			r := &g.s.reqs[g.ID%psmsg.Slots]
			if g.s.broken || r.fetch.id != g.ID {
				continue // its session ended meanwhile
			}
			r.fetch.cut(g.Offset, g.Bytes, func(local []byte, remote rdma.RemoteRange) { g.s.read(local, remote, r.slot) })
		}
		clear(l.inbox)
	}
}

// nextGrant is when a link may grant although nothing lands; at most a second
// from now.
func (l *lane) nextGrant(now time.Time) time.Time {
	at := now.Add(time.Second)
	for _, k := range l.links {
		if d := k.deadline.Load(); d != fanin.Never {
			if t := k.start.Add(time.Duration(d)); t.Before(at) {
				at = t
			}
		}
	}
	return at
}

// keepFetching takes what has landed while the lane is long at something else,
// and asks for more: the link must not stand still meanwhile. All else that it
// finds waits for the lane's next turn.
func (l *lane) keepFetching() {
	if len(l.links) == 0 || len(l.later)+len(l.cs) > cap(l.later) {
		return
	}
	at := len(l.later)
	n := l.mux.Poll(l.later[at : at+len(l.cs)])
	found := l.later[at : at+n]
	l.later = l.later[:at]
	for i := range found {
		c := found[i]
		if s := l.sessionOf(&c); s != nil && c.Status == rdma.StatusOK && c.Op == rdma.OpRead {
			r := &s.reqs[slotOf(&c)]
			if l.fetched(r, c.Bytes) {
				l.whole = append(l.whole, r)
			}
			continue
		}
		l.later = append(l.later, c)
	}
	l.fetchGranted()
	for s := range l.open {
		s.flush()
	}
}
