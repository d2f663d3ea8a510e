package chain

import (
	"encoding/json"
	"slices"
	"time"

	"psrt/sched/member"
	"psrt/sched/place"
)

const storeID = 1000

// simStore is the coordinator's store: the map under one key, compared and swapped
// by revision, and who is registered.
type simStore struct {
	s        *sim
	end      *simEnd
	value    []byte
	revision uint64
	servers  map[int]simReg
	chains   *place.Chains // value, decoded: for the oracle
}

type simReg struct {
	server  place.Server
	leaving bool
	until   time.Duration
}

type storeAsk struct {
	from     int
	register *simReg // its server is there
	value    []byte  // to be swapped in, if the revision is still this
	revision uint64
}

type storeTell struct {
	value    []byte
	revision uint64
	servers  []place.Server
	leaving  []int
}

const registered = 2 * time.Second

func (st *simStore) handle(msg any) {
	a, ok := msg.(storeAsk)
	if !ok {
		return
	}
	if a.register != nil {
		if was, ok := st.servers[a.from]; !ok || was.server.Gen <= a.register.server.Gen {
			reg := *a.register
			reg.until = st.s.net.now + registered
			st.servers[a.from] = reg
		}
	}
	if a.value != nil && a.revision == st.revision {
		st.put(a.value)
	}
	t := storeTell{value: st.value, revision: st.revision}
	for id := range st.s.servers {
		if r, ok := st.servers[id]; ok && r.until > st.s.net.now {
			t.servers = append(t.servers, r.server)
			if r.leaving {
				t.leaving = append(t.leaving, id)
			}
		}
	}
	st.s.net.send(storeID, a.from, t)
}

func (st *simStore) put(value []byte) {
	st.value = value
	st.revision += 1 + st.s.r.Uint64N(3) // others write other keys
	c, err := place.Decode(value, st.revision)
	if err != nil {
		st.s.failf("the store has a map that cannot be: %v", err)
		return
	}
	st.chains = c
}

// simServer is one server process: the shell around its machines, as small as it
// can be.
type simServer struct {
	s        *sim
	id       int
	node     Node
	end      *simEnd
	peers    *member.Peers
	turns    member.Turns
	outs     *member.Outs
	chains   *place.Chains
	servers  []place.Server
	left     []int
	machines []*Machine
	states   []*simState
	waiting  []map[uint64]simReq // by group: ops to answer when committed, by seq
	torn     []simTorn
	fences   []simFence
	caught   map[int]uint64 // group -> its epoch
	heldIn   map[int]uint64
	lost     map[simLost]bool
	asks     []map[uint64]simReq
	reads    []simReq // that wait
	leaving  bool
	tryAgain time.Duration
}

type simTorn struct {
	group int
	seq   uint64
	rest  []byte
	dies  bool
}

type simFence struct {
	group int
	epoch uint64
	whole uint64 // the map's
	until time.Duration
	nodes []Node
}

type simLost struct {
	group int
	epoch uint64
	node  Node
}

type simSaid struct {
	group int
	from  Node
	r     Report
}

func (v *simServer) now() time.Duration { return v.s.net.now }

func (v *simServer) boot() {
	g := v.s.groups
	v.peers = member.NewPeers(v.node, member.Times{})
	v.outs = member.NewOuts(v.peers.Times().Rejoin)
	v.turns, v.chains, v.servers, v.left, v.fences, v.torn, v.reads = member.Turns{}, nil, nil, nil, nil, nil, nil
	v.caught, v.heldIn, v.lost, v.leaving = map[int]uint64{}, map[int]uint64{}, map[simLost]bool{}, false
	v.machines, v.states = make([]*Machine, g), make([]*simState, g)
	v.waiting, v.asks = make([]map[uint64]simReq, g), make([]map[uint64]simReq, g)
	for i := range g {
		st := newSimState(v.s.bsp, len(v.s.workers))
		st.taken = func(op *Op) { v.s.oracle.taken(v, i, op) }
		v.states[i] = st
		v.machines[i] = New(v.node, i, v.s.opt, st)
		v.waiting[i], v.asks[i] = map[uint64]simReq{}, map[uint64]simReq{}
	}
	v.end.handle = v.handle
	v.tick(0)
}

func (v *simServer) tick(n int) {
	if n%20 == 0 {
		v.s.net.send(v.id, storeID, storeAsk{from: v.id, register: &simReg{server: v.server(), leaving: v.leaving}})
	}
	now := v.now()
	if v.chains != nil {
		var nodes []Node
		for _, s := range v.chains.Servers {
			nodes = append(nodes, v.chains.Node(s.ID))
		}
		for _, s := range v.servers { // newcomers, and those that were cut out
			if n := (Node{Server: s.ID, Gen: s.Gen}); !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
		v.peers.Forget(func(n Node) bool { return slices.Contains(nodes, n) })
		for _, b := range v.peers.Tick(nodes, now) {
			v.s.net.send(v.id, b.To.Server, b)
		}
		v.fences = slices.DeleteFunc(v.fences, func(f simFence) bool {
			if now >= f.until || v.peers.Reached(f.nodes, f.whole) {
				v.machines[f.group].Fenced(f.epoch)
				v.flush(f.group)
				return true
			}
			return false
		})
		for g, m := range v.machines {
			if v.s.r.IntN(8) == 0 {
				m.Pace(Pace{Rows: 1 + v.s.r.IntN(3000), Item: 1 + v.s.r.IntN(400), Feed: v.s.r.IntN(3000)})
			}
			if n%2 == 0 {
				m.Tick()
			}
			v.flush(g)
		}
		v.moreBytes()
		v.retryReads()
		if n%5 == 0 {
			v.decide()
		}
	}
	v.s.net.later(v.end, 10*time.Millisecond+time.Duration(v.s.r.Int64N(int64(time.Millisecond))), func() { v.tick(n + 1) })
}

func (v *simServer) server() place.Server {
	return place.Server{ID: v.id, Lanes: 2, Weight: 1, Gen: v.node.Gen, Host: string(rune('a' + v.id))}
}

// moreBytes brings what is missing of pushes that are under way, or gives them up.
func (v *simServer) moreBytes() {
	torn := v.torn
	v.torn = nil
	for _, t := range torn {
		m := v.machines[t.group]
		if t.dies {
			m.Abort(t.seq)
			delete(v.waiting[t.group], t.seq)
		} else {
			m.More(t.seq, t.rest)
		}
		v.flush(t.group)
	}
}

func (v *simServer) handle(msg any) {
	switch msg := msg.(type) {
	case storeTell:
		v.servers, v.left = msg.servers, msg.leaving
		v.adopt(msg.value, msg.revision)
	case member.Beat:
		if msg.To != v.node {
			return
		}
		answer, answers, newer := v.peers.Step(msg, v.now())
		if answers {
			v.s.net.send(v.id, answer.To.Server, answer)
		}
		if newer {
			v.wantMap()
		}
	case Message:
		if msg.To == v.node {
			v.machines[msg.Group].Step(msg)
			v.flush(msg.Group)
		}
	case simSaid:
		v.note(msg)
	case simReq:
		v.request(msg)
	}
}

func (v *simServer) wantMap() {
	if now := v.now(); now >= v.tryAgain {
		v.tryAgain = now + 5*time.Millisecond
		v.s.net.send(v.id, storeID, storeAsk{from: v.id})
	}
}

// adopt takes a newer map: all groups' machines in one moment, then the answers to
// beats.
func (v *simServer) adopt(value []byte, revision uint64) {
	if v.chains != nil && revision <= v.chains.Epoch {
		return
	}
	c, err := place.Decode(value, revision)
	if err != nil {
		v.s.failf("map: %v", err)
		return
	}
	v.outs.Adopt(v.chains, c, v.now())
	v.chains = c
	for g, m := range v.machines {
		before := m.Epoch()
		m.Adopt(ConfigOf(c, g))
		if m.Epoch() != before {
			clear(v.asks[g])
			clear(v.waiting[g]) // their workers ask again
			v.torn = slices.DeleteFunc(v.torn, func(t simTorn) bool { return t.group == g && m.at(t.seq) == nil })
		}
	}
	v.peers.Adopt(c.Epoch)
	for g := range v.machines {
		v.flush(g)
	}
}

// leased is asked at the moment of every answer.
func (v *simServer) leased(g int) bool {
	cfg := v.machines[g].Config()
	return v.peers.Leased(cfg.Nodes(), cfg.Epoch, v.now())
}

// flush does what a machine wants.
func (v *simServer) flush(g int) {
	m := v.machines[g]
	out := m.Outputs()
	for _, msg := range out.Messages {
		v.s.net.send(v.id, msg.To.Server, msg)
	}
	for _, d := range out.Done {
		v.s.oracle.done(v, g, d)
		if q, ok := v.waiting[g][d.Seq]; ok {
			delete(v.waiting[g], d.Seq)
			v.answer(q, simReply{code: replyOK, seq: d.Seq, last: d.Push})
		}
	}
	for _, r := range out.Reports {
		switch r.Kind {
		case NeedMap:
			v.wantMap()
		case Fence:
			v.fences = append(v.fences, simFence{g, r.Epoch, v.chains.Epoch, v.peers.Released(r.Nodes, v.chains.Epoch, v.now()), r.Nodes})
		case Caught, Held, Stuck, LostState:
			said := simSaid{g, v.node, r}
			v.note(said)
			for _, s := range v.chains.Servers {
				if s.ID != v.id {
					v.s.net.send(v.id, s.ID, said)
				}
			}
		case Told:
			if q, ok := v.asks[g][r.Ask]; ok {
				delete(v.asks[g], r.Ask)
				q.atLeast, q.kind = r.Seq, reqClean
				q.told = true
				v.request(q)
			}
		}
	}
}

func (v *simServer) note(s simSaid) {
	switch s.r.Kind {
	case Caught:
		v.caught[s.group] = s.r.Epoch
	case Held:
		v.heldIn[s.group] = s.r.Epoch
	case Stuck:
		v.lost[simLost{s.group, s.r.Epoch, s.r.Nodes[0]}] = true
	case LostState:
		v.lost[simLost{s.group, s.r.Epoch, s.from}] = true
	}
}

// decide proposes the next map where this server is in the present one.
func (v *simServer) decide() {
	c, now := v.chains, v.now()
	if len(v.servers) == 0 || c.Index(v.id) < 0 || c.Node(v.id) != v.node {
		return
	}
	suspects := func(n Node) bool { return v.peers.Suspects(n, now) }
	view := member.View{Map: c, Servers: v.servers, Suspects: suspects,
		Leaving: func(n Node) bool { return slices.Contains(v.left, n.Server) },
		Waits:   func(n Node) bool { return v.outs.Waits(n, now) },
		Lost:    map[int][]Node{},
		Reports: place.Reports{Caught: map[int]bool{}, Held: map[int]bool{}}, Limits: place.Limits{Joins: 3, PerServer: 2, GroupsHeld: 1}}
	for g := range c.Groups {
		view.Reports.Caught[g] = v.caught[g] == c.Groups[g].Since
		view.Reports.Held[g] = v.heldIn[g] == c.Groups[g].Since
	}
	for l := range v.lost {
		if c.Groups[l.group].Since == l.epoch {
			view.Lost[l.group] = append(view.Lost[l.group], l.node)
		}
	}
	for g := range view.Lost {
		slices.SortFunc(view.Lost[g], func(a, b Node) int { return a.Server - b.Server })
	}
	next, moves, _ := member.Decide(view)
	rank := member.Rank(v.node, v.servers, suspects)
	if !v.turns.Now(next != nil || len(moves) > 0, c.Epoch, rank, v.peers.Times().Stagger, now) {
		return
	}
	for _, mv := range moves {
		if mv.Role == place.Hold {
			v.s.net.send(v.id, mv.To, simReq{kind: reqHold, group: mv.Group, epoch: c.Groups[mv.Group].Since, from: v.id})
		}
	}
	if next == nil {
		return
	}
	value, err := json.Marshal(next)
	if err != nil {
		v.s.failf("map: %v", err)
		return
	}
	v.s.net.send(v.id, storeID, storeAsk{from: v.id, value: value, revision: c.Epoch})
}
