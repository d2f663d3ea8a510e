package chain

import (
	"maps"
	"slices"
)

// Machine is one group on one server. It belongs to one goroutine.
type Machine struct {
	self  Node
	group int
	opt   Options
	state State
	out   Output

	cfg  Config
	pos  int  // in cfg.Chain, -1: not in it
	has  bool // the state holds all that is committed
	mine uint64

	// readers, removed and fenced: who may still serve readers of an epoch before,
	// and whether that is known to be over.
	removed []Node
	fenced  bool
	heard   bool // from the predecessor, in this epoch
	// wasClear is clear when that was looked at last, to tell the predecessor.
	wasClear bool
	leased   bool
	held     bool

	log       []*Op  // committed+1 ...; all whole but the last
	logBytes  int    // of whole sizes
	committed uint64 // done to the state
	clients   map[uint32]Client
	ordered   map[uint32]Client // with what is in the log; of the head

	next link  // to the successor, or to a joiner that is in step
	feed *feed // to a joiner, of the tail
	// pace is what of a copy may be on its way; zeros: Options alone.
	pace   Pace
	joined *join // being one
	ackDue bool
	asks   map[uint64]bool
	asked  uint64
}

// New is a server's machine for a group: it does nothing until Adopt.
func New(self Node, group int, opt Options, state State) *Machine {
	return &Machine{self: self, group: group, opt: opt.orDefault(), state: state, pos: -1,
		clients: map[uint32]Client{}, ordered: map[uint32]Client{}, asks: map[uint64]bool{}}
}

// Epoch is the group's epoch as this machine knows it, 0 before the first.
func (m *Machine) Epoch() uint64 { return m.cfg.Epoch }

// Config is what was adopted last. It is read only.
func (m *Machine) Config() Config { return m.cfg }

// Committed is the last op that the state holds.
func (m *Machine) Committed() uint64 { return m.committed }

// Ordered calls f for what has its place in the order and is not committed. f changes
// nothing.
func (m *Machine) Ordered(f func(op *Op)) {
	for _, op := range m.log {
		f(op)
	}
}

// Client is what the state knows of a worker: what an Enter that is a duplicate
// wants to be told.
func (m *Machine) Client(worker uint32) Client { return m.clients[worker] }

// LogOps and LogBytes are what is ordered or received and not committed.
func (m *Machine) LogOps() int { return len(m.log) }

// LogBytes is the size of those ops.
func (m *Machine) LogBytes() int { return m.logBytes }

// Head says whether ops are submitted here.
func (m *Machine) Head() bool { return m.isHead() }

// Pace bounds what of a copy may be sent and not acknowledged below what Options allow.
func (m *Machine) Pace(p Pace) { m.pace = p }

// Drive goes on with what waited for the state: rows that it could not give before.
func (m *Machine) Drive() { m.drive() }

// Outputs is what is to be done; it is the caller's.
func (m *Machine) Outputs() Output {
	o := m.out
	m.out = Output{}
	return o
}

func (m *Machine) isHead() bool { return m.pos == 0 && m.has }
func (m *Machine) isTail() bool { return m.pos >= 0 && m.pos == len(m.cfg.Chain)-1 && m.has }

// last is the last whole op.
func (m *Machine) last() uint64 {
	n := m.committed + uint64(len(m.log))
	if k := len(m.log); k > 0 && !m.log[k-1].whole() {
		n--
	}
	return n
}

func (m *Machine) at(seq uint64) *Op {
	if seq <= m.committed || seq > m.committed+uint64(len(m.log)) {
		return nil
	}
	return m.log[seq-m.committed-1]
}

// Adopt takes a group's chain of a newer epoch; an older one changes nothing.
// Members since the job's first map begin with nothing, when the first map that
// they adopt has them still; others join behind the tail.
func (m *Machine) Adopt(cfg Config) {
	if cfg.Epoch <= m.cfg.Epoch {
		return
	}
	before, wasHead := m.cfg, m.isHead()
	m.cfg, m.pos = cfg, cfg.position(m.self)
	m.next, m.feed, m.held, m.heard, m.ackDue = link{}, nil, false, false, false
	for ask := range m.asks { // its asker asks again
		delete(m.asks, ask)
	}
	for _, old := range before.Chain {
		if cfg.position(old.Node) < 0 && !slices.Contains(m.removed, old.Node) {
			m.removed = append(m.removed, old.Node)
		}
	}
	var me *Member
	if m.pos >= 0 {
		me = &cfg.Chain[m.pos]
	}
	m.takeRole(me, wasHead, before.Epoch == 0)
	m.endRun() // the head before may have died in its middle
	m.fence()
	m.drive()
}

// takeRole decides whether what this node has is what the map says.
func (m *Machine) takeRole(me *Member, wasHead, first bool) {
	switch j := m.joined; {
	case me == nil:
		was := m.has || j != nil
		m.forget()
		if m.cfg.Joiner != nil && m.cfg.Joiner.Node == m.self {
			m.mine = m.cfg.Joiner.Joined
			m.joined = &join{}
		} else if was {
			m.report(Report{Kind: Deposed, Epoch: m.cfg.Epoch})
		}
		return
	case m.has && m.mine == me.Joined:
	case j != nil && j.whole && m.mine == me.Joined:
		m.has, m.joined = true, nil
	case first && me.Joined == m.cfg.Began:
		m.forget()
		m.has, m.mine = true, me.Joined
	default:
		m.forget()
		m.report(Report{Kind: LostState, Epoch: m.cfg.Epoch})
		return
	}
	if k := len(m.log); k > 0 && !m.log[k-1].whole() && !(wasHead && m.pos == 0) {
		m.logBytes -= m.log[k-1].Size // torn: its head is gone, its worker sends it again
		m.log = m.log[:k-1]
	}
	m.recount()
	if m.pos == len(m.cfg.Chain)-1 && m.cfg.Joiner != nil {
		m.feed = &feed{to: m.cfg.Joiner.Node}
	}
}

// recount makes ordered anew.
func (m *Machine) recount() {
	m.ordered = maps.Clone(m.clients)
	for _, op := range m.log {
		count(m.ordered, &op.Header)
	}
}

// forget drops all that this node has of the group.
func (m *Machine) forget() {
	m.has, m.joined, m.mine = false, nil, 0
	m.log, m.logBytes, m.committed = nil, 0, 0
	m.clients, m.ordered = map[uint32]Client{}, map[uint32]Client{}
	m.state.Clear()
}

// fence asks for the end of all that members before may have promised readers.
func (m *Machine) fence() {
	m.removed = slices.DeleteFunc(m.removed, func(n Node) bool { return n == m.self || m.cfg.position(n) >= 0 })
	if m.pos < 0 { // who leads it in has seen to those
		m.removed = nil
	}
	if m.fenced = len(m.removed) == 0; !m.fenced {
		m.report(Report{Kind: Fence, Epoch: m.cfg.Epoch, Nodes: slices.Clone(m.removed)})
	}
}

// Fenced says that none of Fence's nodes serves readers any more, nor will.
func (m *Machine) Fenced(epoch uint64) {
	if epoch == m.cfg.Epoch {
		m.fenced, m.removed = true, nil
		m.drive()
	}
}

// clear says that this member and all before it are in this epoch and past their
// fences: then nobody serves one before it. Whoever is not says nothing to its
// successor, so that a tail which is clear speaks for the whole chain.
func (m *Machine) clear() bool { return m.has && m.fenced && (m.pos == 0 || m.pos > 0 && m.heard) }

// Lease says whether readers may be served: all of Config.Nodes, but this one, have
// confirmed this epoch a short time ago.
func (m *Machine) Lease(on bool) { m.leased = on }

// Hold has the head order nothing more in this epoch, so that its chain drains.
func (m *Machine) Hold(epoch uint64) {
	if epoch == m.cfg.Epoch && m.isHead() {
		m.held = true
		m.drive()
	}
}

// Tick is time that passes: what was lost on the way is sent again.
func (m *Machine) Tick() {
	if m.has {
		m.endRun()
		m.next.tick(m)
		if m.feed != nil {
			m.feed.tick(m)
		}
		if m.held && len(m.log) == 0 {
			m.report(Report{Kind: Held, Epoch: m.cfg.Epoch})
		}
	} else if m.pos >= 0 {
		m.report(Report{Kind: LostState, Epoch: m.cfg.Epoch})
	}
	m.drive()
}

func (m *Machine) report(r Report) { m.out.Reports = append(m.out.Reports, r) }

func (m *Machine) send(msg Message) {
	msg.Group, msg.Epoch, msg.From = m.group, m.cfg.Epoch, m.self
	m.out.Messages = append(m.out.Messages, msg)
}

// drive does all that has become possible.
func (m *Machine) drive() {
	if m.has {
		if c := m.clear(); c != m.wasClear {
			m.wasClear = c
			m.ackDue = m.ackDue || c && m.pos > 0
		}
		m.commitAsTail()
		// Not before it is clear: until then this tail commits nothing, and a joiner in
		// step would have it commit; what it was left with from the epochs before, which
		// the tail then may have shown, it has committed by now.
		if m.feed != nil && m.clear() {
			m.feed.fill(m)
		}
		m.next.fill(m)
		if m.held && len(m.log) == 0 && !m.next.saidHeld {
			m.next.saidHeld = true
			m.report(Report{Kind: Held, Epoch: m.cfg.Epoch})
		}
	}
	m.flushAck()
}

// flushAck tells the predecessor what is here, once for all that came.
func (m *Machine) flushAck() {
	if !m.ackDue {
		return
	}
	m.ackDue = false
	var to Node
	switch {
	case m.has && m.pos > 0:
		to = m.cfg.Chain[m.pos-1].Node
	case m.joined != nil && m.joined.whole:
		to = m.cfg.Chain[len(m.cfg.Chain)-1].Node
	default:
		return
	}
	ack := Message{Kind: Ack, To: to, Seq: m.last(), Committed: m.committed}
	if m.isTail() && !m.clear() { // what it did as a joiner is a commit from then on
		ack.Committed = 0
	}
	if k := len(m.log); k > 0 && !m.log[k-1].whole() {
		ack.Off = len(m.log[k-1].Body)
	}
	m.send(ack)
}
