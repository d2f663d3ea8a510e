package server

import (
	"sync"
	"sync/atomic"
	"time"

	"psrt/sched/psmsg"
	"psrt/sched/usage"
)

// namedTables bounds the tables whose flows are counted apart in a lane; later
// ones share one.
const namedTables = 32

// requestKinds is how many kinds of requests there are; they count from 1.
const requestKinds = int(psmsg.KindAnnounce)

// flow counts what one worker moves for one table at one lane. The lane adds,
// anybody reads.
type flow struct {
	in, out  atomic.Uint64 // bytes
	requests [requestKinds]atomic.Uint64
}

// tableFlows are the flows of a table, by worker.
type tableFlows struct {
	name string
	by   []flow
}

// traffic is all that a lane counts for others to see.
type traffic struct {
	byTable map[uint32]*tableFlows // the lane's own
	latency [requestKinds]usage.Histogram

	mu  sync.Mutex
	all []*tableFlows
}

// denseFlows and otherFlows are no tables' numbers: these are small.
const (
	denseFlows = ^uint32(0)
	otherFlows = ^uint32(1)
)

// flowOf finds, or makes, what a request is counted in.
func (l *lane) flowOf(r *request) *flow {
	id, name := r.Table, psmsg.OtherFlow
	switch t := l.tables[id]; {
	case r.Kind == psmsg.KindPullDense || r.Kind == psmsg.KindPushDense:
		id, name = denseFlows, psmsg.DenseFlow
	case t == nil:
		id = otherFlows
	default:
		name = t.spec.Name
	}
	f := l.traffic.byTable[id]
	if f == nil {
		f = l.traffic.open(id, name, len(l.current))
	}
	return &f.by[r.s.worker]
}

func (t *traffic) open(id uint32, name string, workers int) *tableFlows {
	if t.byTable == nil {
		t.byTable = map[uint32]*tableFlows{}
	}
	named := id != otherFlows
	if named && len(t.byTable) >= namedTables {
		f := t.byTable[otherFlows]
		if f == nil {
			f = t.open(otherFlows, psmsg.OtherFlow, workers)
		}
		t.byTable[id] = f
		return f
	}
	f := &tableFlows{name: name, by: make([]flow, workers)}
	t.byTable[id] = f
	t.mu.Lock()
	t.all = append(t.all, f)
	t.mu.Unlock()
	return f
}

// came counts a request as it arrives.
func (l *lane) came(r *request, bytes int) {
	r.flow, r.began = l.flowOf(r), l.began
	r.flow.requests[r.Kind-1].Add(1)
	r.landed(bytes, 1)
}

// landed counts bytes of a request that are here, or lent.
func (r *request) landed(bytes, messages int) {
	r.flow.in.Add(uint64(bytes))
	r.s.seen.add(bytes, messages)
}

// lent counts what a mapped worker's memory gives to a request that is ready.
func (l *lane) lent(r *request) {
	switch {
	case !r.s.mapped:
	case r.Kind != psmsg.KindPushDense:
		r.landed(8*len(r.keys)+4*len(r.grads)+len(r.pack.bytes), 0)
	case r.Flags&psmsg.FlagPacked != 0:
		r.landed(len(r.pack.bytes), 0)
	case r.Rows > 0:
		r.landed(4*l.dense.floats, 0)
	}
}

// answered counts a request's answer, and how long the request was here.
func (l *lane) answered(r *request, code psmsg.Code) {
	if r.flow == nil {
		return
	}
	n := uint64(psmsg.ReplyBytes)
	if code == psmsg.CodeOK {
		switch r.Kind {
		case psmsg.KindPull:
			n += r.Values.Len
		case psmsg.KindPullDense:
			n += 4 * uint64(l.dense.floats)
		}
	}
	r.flow.out.Add(n)
	l.traffic.latency[r.Kind-1].Add(time.Since(r.began))
	r.flow = nil
}

// read adds a lane's flows to those in sums, by table and worker.
func (t *traffic) read(sums map[string][]psmsg.FlowStats) {
	t.mu.Lock()
	all := t.all
	t.mu.Unlock()
	for _, f := range all {
		list := sums[f.name]
		if list == nil {
			list = make([]psmsg.FlowStats, len(f.by))
			sums[f.name] = list
		}
		for w := range f.by {
			s, c := &list[w], &f.by[w]
			s.Worker, s.Table = w, f.name
			s.InBytes += c.in.Load()
			s.OutBytes += c.out.Load()
			s.Pulls += c.requests[psmsg.KindPull-1].Load() + c.requests[psmsg.KindPullDense-1].Load()
			s.Pushes += c.requests[psmsg.KindPush-1].Load() + c.requests[psmsg.KindPushDense-1].Load()
		}
	}
}
