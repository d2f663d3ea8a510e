package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"psrt/sched/place"
)

// sim is a small cluster under faults, all of it decided by a seed.
type sim struct {
	r        *rand.Rand
	net      *simNet
	opt      Options
	bsp      bool
	replicas int
	groups   int
	pushes   uint64
	store    *simStore
	servers  []*simServer
	workers  []*simWorker // the newest of each number
	ends     int
	oracle   *oracle
	err      error
	log      []string
	busy     int // faults that may cost a replica, under way
}

func (s *sim) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at %v: "+format, append([]any{s.net.now}, args...)...)
	}
}

func (s *sim) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%8.3fs ", s.net.now.Seconds())+fmt.Sprintf(format, args...))
}

func (s *sim) current(w *simWorker) bool { return s.workers[w.number] == w }

// runSim is one run; the error says which promise was broken, the log what faults
// there were.
func runSim(seed uint64) (log []string, err error) {
	r := rand.New(rand.NewPCG(seed, 77))
	s := &sim{r: r, net: newSimNet(r)}
	s.replicas, s.groups, s.pushes = 1+r.IntN(3), 1+r.IntN(3), uint64(10+r.IntN(20))
	s.bsp = r.IntN(2) == 0
	s.opt = Options{ChunkBytes: 64 + r.IntN(300), InflightBytes: 512 + r.IntN(2000), LogOps: 4 + r.IntN(16), LogBytes: 2000 + r.IntN(8000), FeedBytes: 1500 + r.IntN(4000),
		StuckTicks: 60 + r.IntN(200)} // what is lost or overtaken comes again after up to 20: three times
	s.net.loss, s.net.repeat = 0.05*r.Float64(), 0.05*r.Float64()
	if r.IntN(3) == 0 {
		s.net.slow = 12 * time.Millisecond // much reordering
	}
	s.oracle = newOracle(s)
	s.start(s.replicas+r.IntN(3), 2+r.IntN(2))
	s.note("replicas %d, groups %d, bsp %v, servers %d, workers %d", s.replicas, s.groups, s.bsp, len(s.servers), len(s.workers))

	faults := 2 + r.IntN(6)
	for at := 300 * time.Millisecond; faults > 0; faults-- {
		at += time.Duration(r.Int64N(int64(500 * time.Millisecond)))
		s.net.after(at, s.fault)
	}
	for s.net.step(5*time.Second) && s.err == nil {
	}
	s.net.after(0, s.heal)
	end := s.net.now + 60*time.Second
	for s.err == nil && s.net.step(end) {
		if s.net.seq%64 == 0 && s.finished() {
			s.oracle.final()
			return s.log, s.err
		}
	}
	if s.err == nil {
		s.err = errors.New("not finished: " + s.unfinished())
	}
	return s.log, s.err
}

func (s *sim) start(servers, workers int) {
	s.store = &simStore{s: s, end: s.net.end(storeID), servers: map[int]simReg{}, revision: 1}
	s.store.end.handle = s.store.handle
	s.workers = make([]*simWorker, workers)
	for range servers {
		s.addServer()
	}
	var list []place.Server
	for _, v := range s.servers {
		list = append(list, v.server())
	}
	c, err := place.NewChains(place.ChainsConfig{Slots: 64, Groups: s.groups, Replicas: s.replicas}, list)
	if err != nil {
		s.failf("%v", err)
		return
	}
	value, err := json.Marshal(c)
	if err != nil {
		s.failf("%v", err)
		return
	}
	s.store.put(value)
	for w := range s.workers {
		s.addWorker(uint32(w))
	}
}

func (s *sim) addServer() {
	id := len(s.servers)
	v := &simServer{s: s, id: id, node: Node{Server: id, Gen: 1}, end: s.net.end(id)}
	s.servers = append(s.servers, v)
	v.boot()
}

func (s *sim) addWorker(number uint32) {
	client := uint64(1)
	if old := s.workers[number]; old != nil {
		client = old.client + 1
	}
	s.ends++
	w := &simWorker{s: s, number: number, client: client, end: s.net.end(2000 + s.ends)}
	s.workers[number] = w
	w.boot()
}

// whole says whether all groups have their replicas, all of them alive, and nobody
// is on the way in.
func (s *sim) whole() bool {
	for i := range s.store.chains.Groups {
		g := &s.store.chains.Groups[i]
		if len(g.Chain) < s.replicas {
			return false
		}
		for _, m := range g.Chain {
			v := s.servers[m.Server]
			if v.end.down || s.store.chains.Node(m.Server) != v.node || !v.machines[i].has || v.machines[i].Epoch() != g.Since {
				return false
			}
		}
	}
	return true
}

// fault does one thing to the cluster. What may cost a replica waits until all are
// whole, so that never more are gone than replicas allow.
func (s *sim) fault() {
	pick := func() *simServer { return s.servers[s.r.IntN(len(s.servers))] }
	long := 50*time.Millisecond + time.Duration(s.r.Int64N(int64(1500*time.Millisecond)))
	costs := func(do func()) {
		if s.busy == 0 && s.whole() {
			s.busy++
			do()
		} else {
			s.net.after(100*time.Millisecond, s.fault)
		}
	}
	over := func() {
		s.net.after(time.Second, func() { s.busy-- })
	}
	switch k := s.r.IntN(9); {
	case k <= 1 && s.replicas > 1:
		costs(func() {
			victims := 1 + s.r.IntN(s.replicas-1)
			for range victims {
				v := pick()
				if v.end.down {
					continue
				}
				s.note("kill server %d", v.id)
				s.net.kill(v.id)
				s.net.after(long, func() { s.restart(v); over(); s.busy++ })
			}
			over()
		})
	case k == 2 || k == 3 && s.replicas > 1:
		costs(func() {
			v := pick()
			s.note("stop server %d for %v", v.id, long)
			s.net.stop(v.id)
			s.net.after(long, func() { s.net.goOn(v.id); over() })
		})
	case k == 4:
		costs(func() {
			a, b := pick().id, pick().id
			both := s.r.IntN(2) == 0
			s.note("cut %d to %d, both ways %v, for %v", a, b, both, long)
			s.cut(a, b, 1)
			if both {
				s.cut(b, a, 1)
			}
			s.net.after(long, func() {
				s.cut(a, b, -1)
				if both {
					s.cut(b, a, -1)
				}
				over()
			})
		})
	case k == 5:
		s.note("the store is gone for %v", long)
		s.net.stop(storeID)
		s.net.after(long, func() {
			for id, r := range s.store.servers { // leases outlive their store
				r.until += long
				s.store.servers[id] = r
			}
			s.net.goOn(storeID)
		})
	case k == 6 && len(s.servers) < 8:
		s.note("server %d joins", len(s.servers))
		s.addServer()
	case k == 7:
		leaving := 0
		for _, v := range s.servers {
			if v.leaving || v.end.down {
				leaving++
			}
		}
		if v := pick(); len(s.servers)-leaving > s.replicas+1 && !v.end.down {
			s.note("server %d leaves", v.id)
			v.leaving = true
		}
	default:
		number := uint32(s.r.IntN(len(s.workers)))
		old := s.workers[number]
		if s.r.IntN(2) == 0 {
			s.note("kill worker %d", number)
			s.net.kill(old.end.id)
		} else {
			s.note("worker %d is given up, and lives on", number)
			s.net.stop(old.end.id)
			s.net.after(long, func() { s.net.goOn(old.end.id) })
		}
		s.addWorker(number)
	}
}

func (s *sim) cut(a, b, by int) { s.net.cut[[2]int{a, b}] += by }

func (s *sim) restart(v *simServer) {
	if !v.end.down {
		return
	}
	s.note("server %d starts again", v.id)
	v.end.down = false
	v.node.Gen++
	v.boot()
}

// heal ends all faults.
func (s *sim) heal() {
	s.note("heal")
	s.net.loss, s.net.repeat = 0, 0
	clear(s.net.cut)
	for _, v := range s.servers {
		s.restart(v)
		s.net.goOn(v.id)
	}
	s.net.goOn(storeID)
	for _, w := range s.workers {
		s.net.goOn(w.end.id)
	}
}

func (s *sim) finished() bool {
	for _, w := range s.workers {
		for g := range w.groups {
			if w.groups[g].last < s.pushes {
				return false
			}
		}
	}
	if !s.whole() {
		return false
	}
	for i := range s.store.chains.Groups {
		g := &s.store.chains.Groups[i]
		if g.Joiner != nil {
			return false
		}
		for _, m := range g.Chain {
			if mm := s.servers[m.Server].machines[i]; mm.LogOps() > 0 || mm.Committed() != s.servers[g.Chain[0].Server].machines[i].Committed() {
				return false
			}
		}
	}
	return true
}

func (s *sim) unfinished() (text string) {
	for _, w := range s.workers {
		for g := range w.groups {
			text += fmt.Sprintf("worker %d group %d: %d of %d acknowledged, entered %v\n", w.number, g, w.groups[g].last, s.pushes, w.groups[g].entered)
		}
	}
	for i := range s.store.chains.Groups {
		g := s.store.chains.Groups[i]
		text += fmt.Sprintf("group %d since %d: %v joiner %v\n", i, g.Since, g.Chain, g.Joiner)
		for _, v := range s.servers {
			m := v.machines[i]
			text += fmt.Sprintf("  server %v down %v epoch %d pos %d has %v fenced %v held %v committed %d last %d log %d link %+v leased %v\n",
				v.node, v.end.down, m.Epoch(), m.pos, m.has, m.fenced, m.held, m.committed, m.last(), len(m.log), m.next, v.leased(i))
		}
	}
	return text
}

// oracle knows what all have been told, and holds answers against it.
type oracle struct {
	s     *sim
	order []map[uint64]Header // by group: what each committed op is
	place []map[[2]uint64]uint64
	ack   [][]uint64 // by group and worker: the last acknowledged push
	shown [][]uint64 // likewise, that a newest read has shown
}

func newOracle(s *sim) *oracle {
	o := &oracle{s: s}
	for range s.groups {
		o.order = append(o.order, map[uint64]Header{})
		o.place = append(o.place, map[[2]uint64]uint64{})
		o.ack = append(o.ack, make([]uint64, 8))
		o.shown = append(o.shown, make([]uint64, 8))
	}
	return o
}

// taken: what a member does to its state is the same op everywhere and for ever, and
// no push has two places.
func (o *oracle) taken(v *simServer, g int, op *Op) {
	m := v.machines[g]
	if m == nil || m.pos < 0 || !m.has {
		return
	}
	if was, ok := o.order[g][op.Seq]; ok && was != op.Header {
		o.s.failf("group %d: op %d is %+v at server %d, was %+v", g, op.Seq, op.Header, v.id, was)
	}
	o.order[g][op.Seq] = op.Header
	if op.Kind == Push || op.Kind == Order {
		k := [2]uint64{uint64(op.Worker), op.Push}
		if was, ok := o.place[g][k]; ok && was != op.Seq {
			o.s.failf("group %d: push %d of worker %d was committed as op %d and as op %d", g, op.Push, op.Worker, was, op.Seq)
		}
		o.place[g][k] = op.Seq
		if !slices.Equal(op.Body, simBody(op.Worker, op.Push, g)) {
			o.s.failf("group %d: push %d of worker %d is torn at server %d", g, op.Push, op.Worker, v.id)
		}
	}
}

// done: what a head acknowledges is what was committed.
func (o *oracle) done(v *simServer, g int, d Done) {
	h := d.Header
	was, ok := o.order[g][h.Seq]
	if h.Kind == Enter {
		h.Push = was.Push
	}
	if !ok || was != h {
		o.s.failf("group %d: server %d acknowledges op %d as %+v, committed is %+v", g, v.id, h.Seq, h, was)
	}
}

func (o *oracle) acked(worker uint32, g int, last uint64) {
	o.ack[g][worker] = max(o.ack[g][worker], last)
}

func (o *oracle) mustSee(g int) []uint64 {
	least := slices.Clone(o.ack[g])
	for w := range least {
		least[w] = max(least[w], o.shown[g][w])
	}
	return least
}

// serves: nobody else may answer a newest read of the group at this moment.
func (o *oracle) serves(v *simServer, g int, kind ReadKind) {
	if kind != Newest {
		return
	}
	for _, other := range o.s.servers {
		if other == v || other.end.down || other.end.stopped || other.chains == nil {
			continue
		}
		m := other.machines[g]
		was := m.leased
		m.leased = other.leased(g)
		if m.MayRead(m.Epoch(), Newest, 0) == ReadNow {
			o.s.failf("group %d: servers %d (epoch %d) and %d (epoch %d) both serve the newest", g, v.id, v.machines[g].Epoch(), other.id, m.Epoch())
		}
		m.leased = was
	}
}

// read holds an answer against what its reader was to see, and its sum against the
// pushes that it says are in it.
func (o *oracle) read(w *simWorker, q simRead, r simReply) {
	low := ^uint64(0)
	for n := range o.s.workers {
		last := r.clients[uint32(n)].Last
		low = min(low, last)
		if q.kind != reqClean && last < q.least[n] {
			o.s.failf("group %d: a read (%d) of the newest shows worker %d's pushes up to %d, %d was acknowledged or shown before it began", q.group, q.kind, n, last, q.least[n])
		}
	}
	if own := r.clients[w.number].Last; own < q.own {
		o.s.failf("group %d: worker %d reads its own pushes up to %d, %d was acknowledged to it", q.group, w.number, own, q.own)
	}
	want := int64(0)
	for n := range o.s.workers {
		last := r.clients[uint32(n)].Last
		if o.s.bsp {
			last = low
		}
		for p := uint64(1); p <= last; p++ {
			want += simAmount(o.s.bsp, uint32(n), p, q.group)
		}
		if q.kind != reqClean {
			o.shown[q.group][n] = max(o.shown[q.group][n], r.clients[uint32(n)].Last)
		}
	}
	if r.sum != want {
		o.s.failf("group %d: rows sum to %d, the pushes in them to %d", q.group, r.sum, want)
	}
}

// final: all pushes are in, once, and replicas are equal.
func (o *oracle) final() {
	for g := range o.s.store.chains.Groups {
		want := int64(0)
		for w := range o.s.workers {
			for p := uint64(1); p <= o.s.pushes; p++ {
				want += simAmount(o.s.bsp, uint32(w), p, g)
			}
		}
		chain := o.s.store.chains.Groups[g].Chain
		for _, m := range chain {
			st := o.s.servers[m.Server].states[g]
			if st.sum() != want {
				o.s.failf("group %d: server %d has %d in all, pushed was %d", g, m.Server, st.sum(), want)
			}
			if a, b := st.text(), o.s.servers[chain[0].Server].states[g].text(); a != b {
				o.s.failf("group %d: server %d has\n%sthe head has\n%s", g, m.Server, a, b)
			}
		}
	}
}
