package chain

import (
	"maps"
	"time"

	"psrt/sched/place"
)

type reqKind uint8

const (
	reqOp reqKind = iota
	reqNewest
	reqExact
	reqClean
	reqHold
	reqMap
)

// simReq is what a worker, or a server that decides, asks of a server.
type simReq struct {
	kind    reqKind
	group   int
	epoch   uint64
	from    int
	id      int
	h       Header
	body    []byte
	atLeast uint64
	told    bool
}

type replyCode uint8

const (
	replyOK replyCode = iota
	replyAgain
	replyMoved
	replyStranger
)

type simReply struct {
	id      int
	kind    reqKind
	group   int
	code    replyCode
	h       Header
	seq     uint64
	last    uint64
	clients map[uint32]Client
	sum     int64
	chains  *place.Chains
}

func (v *simServer) answer(q simReq, r simReply) {
	r.id, r.kind, r.group, r.h = q.id, q.kind, q.group, q.h
	v.s.net.send(v.id, q.from, r)
}

func (v *simServer) request(q simReq) {
	if v.chains == nil {
		return
	}
	if q.kind == reqMap {
		v.answer(q, simReply{chains: v.chains})
		return
	}
	m := v.machines[q.group]
	m.Lease(v.leased(q.group))
	switch q.kind {
	case reqHold:
		m.Hold(q.epoch)
	case reqOp:
		v.submit(m, q)
	default:
		v.read(m, q)
	}
	v.flush(q.group)
}

func (v *simServer) submit(m *Machine, q simReq) {
	h, body := q.h, append([]byte(nil), q.body...)
	h.Size = len(body)
	have := len(body)
	if v.s.r.IntN(4) == 0 { // it flows in, or ends in the middle
		have = v.s.r.IntN(have + 1)
	}
	if !v.s.bsp && h.Kind == Push {
		h.Merge = v.s.r.IntN(3) == 0
	}
	seq, verdict := m.Submit(q.epoch, h, body[:have:have])
	switch verdict {
	case Ordered:
		v.waiting[q.group][seq] = q
		if have < len(body) {
			v.torn = append(v.torn, simTorn{q.group, seq, body[have:], v.s.r.IntN(3) == 0})
		}
	case Duplicate:
		v.answer(q, simReply{code: replyOK, seq: m.Committed(), last: m.Client(h.Worker).Last})
	case Elsewhere:
		v.answer(q, simReply{code: replyMoved, chains: v.chains})
	case Stranger:
		v.answer(q, simReply{code: replyStranger})
	default:
		v.answer(q, simReply{code: replyAgain})
	}
}

func (v *simServer) read(m *Machine, q simReq) {
	kind, atLeast := Clean, q.atLeast
	switch {
	case q.kind == reqNewest || q.kind == reqExact && m.isTail():
		kind = Newest
	case q.kind == reqExact:
		if v := m.MayRead(q.epoch, Clean, 0); v == ReadElsewhere {
			break
		}
		v.asks[q.group][m.Ask()] = q
		return
	}
	switch m.MayRead(q.epoch, kind, atLeast) {
	case ReadNow:
		v.s.oracle.serves(v, q.group, kind)
		v.answer(q, simReply{code: replyOK, seq: m.Committed(), clients: maps.Clone(m.clients), sum: v.states[q.group].sum()})
	case ReadWait:
		v.reads = append(v.reads, q)
	case ReadElsewhere:
		v.answer(q, simReply{code: replyMoved, chains: v.chains})
	}
}

func (v *simServer) retryReads() {
	reads := v.reads
	v.reads = nil
	for _, q := range reads {
		v.request(q)
	}
}

// simWorker is one process that has a worker's number: it pushes to every group, in
// order, each push until it is acknowledged, and reads in between.
type simWorker struct {
	s      *sim
	number uint32
	client uint64
	end    *simEnd
	chains *place.Chains
	groups []simStream
	nextID int
	reads  map[int]simRead
	dead   bool
}

type simStream struct {
	entered bool
	last    uint64 // acknowledged
	seen    uint64 // highest op known to be committed
	sentAt  map[uint64]time.Duration
}

type simRead struct {
	kind  reqKind
	group int
	own   uint64
	least []uint64 // by worker: what it must see
}

func (w *simWorker) boot() {
	w.groups = make([]simStream, w.s.groups)
	for g := range w.groups {
		w.groups[g].sentAt = map[uint64]time.Duration{}
	}
	w.reads = map[int]simRead{}
	w.end.handle = w.handle
	w.tick()
}

const resend = 40 * time.Millisecond

func (w *simWorker) tick() {
	if w.dead {
		return
	}
	if w.chains == nil || w.s.r.IntN(40) == 0 {
		w.s.net.send(w.end.id, w.s.r.IntN(len(w.s.servers)), simReq{kind: reqMap, from: w.end.id})
	}
	if w.chains != nil {
		for g := range w.groups {
			w.push(g)
			if w.s.r.IntN(6) == 0 {
				w.read(g)
			}
		}
	}
	w.s.net.later(w.end, 4*time.Millisecond+time.Duration(w.s.r.Int64N(int64(4*time.Millisecond))), w.tick)
}

func (w *simWorker) push(g int) {
	t, grp := &w.groups[g], &w.chains.Groups[g]
	now := w.s.net.now
	send := func(h Header, body []byte) {
		if at, ok := t.sentAt[h.Push]; ok && now-at < resend {
			return
		}
		if at, ok := t.sentAt[h.Push]; ok && now-at > resend && w.s.r.IntN(3) == 0 { // perhaps the map is old
			w.s.net.send(w.end.id, w.s.r.IntN(len(w.s.servers)), simReq{kind: reqMap, from: w.end.id})
		}
		t.sentAt[h.Push] = now
		h.Worker, h.Client = w.number, w.client
		w.s.net.send(w.end.id, grp.Chain[0].Server, simReq{kind: reqOp, group: g, epoch: grp.Since, from: w.end.id, h: h, body: body})
	}
	if !t.entered {
		send(Header{Kind: Enter}, nil)
		return
	}
	for p := t.last + 1; p <= min(t.last+3, w.s.pushes); p++ {
		send(Header{Kind: simKind(w.s.bsp, p), Push: p}, simBody(w.number, p, g))
	}
}

func (w *simWorker) read(g int) {
	grp := &w.chains.Groups[g]
	kind := []reqKind{reqNewest, reqExact, reqClean}[w.s.r.IntN(3)]
	to := grp.Chain[len(grp.Chain)-1].Server
	if kind != reqNewest {
		to = grp.Chain[w.s.r.IntN(len(grp.Chain))].Server
	}
	w.nextID++
	w.reads[w.nextID] = simRead{kind, g, w.groups[g].last, w.s.oracle.mustSee(g)}
	w.s.net.send(w.end.id, to, simReq{kind: kind, group: g, epoch: grp.Since, from: w.end.id, id: w.nextID, atLeast: w.groups[g].seen})
}

func (w *simWorker) handle(msg any) {
	r, ok := msg.(simReply)
	if !ok || w.dead {
		return
	}
	if r.chains != nil && (w.chains == nil || r.chains.Epoch > w.chains.Epoch) {
		w.chains = r.chains
		for g := range w.groups {
			clear(w.groups[g].sentAt)
		}
	}
	if r.kind != reqOp {
		if q, ok := w.reads[r.id]; ok && r.kind != reqMap {
			delete(w.reads, r.id)
			if r.code == replyOK {
				w.s.oracle.read(w, q, r)
			}
		}
		return
	}
	t := &w.groups[r.group]
	switch r.code {
	case replyStranger:
		if r.h.Client == w.client && w.s.current(w) {
			w.s.failf("worker %d's newest client %d is a stranger to group %d", w.number, w.client, r.group)
		}
		w.dead = true
	case replyOK:
		t.seen = max(t.seen, r.seq)
		if r.h.Kind == Enter {
			if !t.entered {
				t.entered, t.last = true, r.last
			}
			w.s.oracle.acked(w.number, r.group, t.last)
			return
		}
		delete(t.sentAt, r.h.Push)
		if r.h.Push == t.last+1 {
			t.last = r.h.Push
		} else if r.h.Push > t.last { // those before it are committed, too
			t.last = r.h.Push
		}
		w.s.oracle.acked(w.number, r.group, t.last)
	}
}
