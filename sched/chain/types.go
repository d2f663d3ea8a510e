package chain

import (
	"cmp"

	"psrt/sched/place"
)

// Node is one server process.
type Node = place.Node

// Member is a node's part in a chain. One that left and came back is another.
type Member struct {
	Node
	Joined uint64 // epoch
}

// Config is a group's chain in one epoch.
type Config struct {
	Epoch  uint64
	Began  uint64   // the job's first epoch
	Chain  []Member // head first
	Joiner *Member
	// Speaks is the newest version of the wire that all of them speak. The machine does
	// not look at it: whoever gives it ops does.
	Speaks int
}

// ConfigOf is a group's part of a stored map.
func ConfigOf(c *place.Chains, group int) Config {
	g := &c.Groups[group]
	member := func(m place.Member) Member {
		return Member{c.Node(m.Server), m.Joined}
	}
	cfg := Config{Epoch: g.Since, Began: c.Began}
	for _, m := range g.Chain {
		cfg.Chain = append(cfg.Chain, member(m))
	}
	if g.Joiner != nil {
		j := member(*g.Joiner)
		cfg.Joiner = &j
	}
	for _, n := range cfg.Nodes() {
		v := cmp.Or(c.Servers[c.Index(n.Server)].Speaks, place.SpeaksUnsaid)
		if cfg.Speaks == 0 || v < cfg.Speaks {
			cfg.Speaks = v
		}
	}
	return cfg
}

// Nodes is the chain and who joins it: those that must confirm an epoch before one
// of them serves readers in it. The joiner is among them because it may be the tail
// in the next epoch, and must know when those before have stopped.
func (c *Config) Nodes() []Node {
	var nodes []Node
	for _, m := range c.Chain {
		nodes = append(nodes, m.Node)
	}
	if c.Joiner != nil {
		nodes = append(nodes, c.Joiner.Node)
	}
	return nodes
}

func (c *Config) position(n Node) int {
	for i, m := range c.Chain {
		if m.Node == n {
			return i
		}
	}
	return -1
}

// Kind is what an op does.
type Kind uint8

const (
	Push  Kind = iota + 1 // a worker's gradients, or its tick alone
	Order                 // anything else that changes the state: a day, a shrink, a cut
	Enter                 // a worker's client takes over the worker's number
	Leave                 // a worker's client is given up
	Void                  // what became of a push whose worker died in its middle
)

func (k Kind) String() string { return [...]string{"?", "push", "order", "enter", "leave", "void"}[k] }

// Header is an op without its body.
type Header struct {
	Seq    uint64 // place in the group's order, from 1
	Kind   Kind
	Merge  bool // in asp and ssp: it is added to the op after it before both are applied; the head forms the runs
	Worker uint32
	Client uint64 // which process is the worker: rises
	// Push is the worker's sequence in this group, from 1. It goes on when another
	// client takes the worker over: Enter's Done says after which push.
	Push uint64
	Size int // bytes of the body
}

// Op is one change of the group's state.
type Op struct {
	Header
	Body []byte // what has come of it
}

func (o *Op) whole() bool { return o.Kind == Void || len(o.Body) == o.Size }

// MessageKind is what a message between servers says.
type MessageKind uint8

const (
	Sync  MessageKind = iota + 1 // to the successor: what have you?
	Data                         // to the successor: bytes of an op
	Ack                          // to the predecessor: what I have, and what is committed
	Feed                         // to the joiner: an item of the copy
	Fed                          // from the joiner: items it has
	Ask                          // to the tail: what is committed?
	Tell                         // its answer
	Moved                        // your epoch is over
)

func (k MessageKind) String() string {
	return [...]string{"?", "sync", "data", "ack", "feed", "fed", "ask", "tell", "moved"}[k]
}

// Message is between two servers, about one group. Links may lose, repeat and
// reorder them.
type Message struct {
	Kind     MessageKind
	Group    int
	Epoch    uint64
	From, To Node

	// Sync: the last whole op of the sender. Ack: of the receiver. Feed, Fed: the
	// item. Ask, Tell: the question.
	Seq uint64
	// Ack: bytes of the op after Seq. Data: where Bytes begin.
	Off int
	// Sync, Ack, Tell: ops up to it are committed.
	Committed uint64
	Header    Header // Data
	Bytes     []byte // Data
	Item      *Item  // Feed
}

// Item is a part of the copy that a joiner gets.
type Item struct {
	Kind      ItemKind
	Seq       uint64 // First, Last: the ops that the copy holds
	Clients   []Client
	Bytes     []byte // First: the state but its rows. Rows: a range of them. Last: State.Past.
	Op        *Op    // Later
	Note      []byte // Later
	itemBytes int
}

// ItemKind is what an item is.
type ItemKind uint8

const (
	First ItemKind = iota + 1
	Rows
	Later // an op that was committed while rows were copied
	Last  // all is copied; from here on the joiner gets ops as a successor does
)

// Client is one worker's line of the table that makes every push count once.
type Client struct {
	Worker uint32
	Client uint64
	Last   uint64 // of its pushes
	Gone   bool
}

// State is what is replicated: a lane's part for one group. All calls are in the
// order of ops, and equal calls must lead to equal states, bit for bit, row ids
// included. It must not call the machine.
type State interface {
	// Take does the next op. With note, somebody catches up, and the result is what
	// TakePart needs beside the op: which ids were given to new rows.
	Take(op *Op, note bool) []byte
	// Rest is the state but its rows: clocks, and pushes that are held until their
	// step is whole.
	Rest() []byte
	// Rows is a range of rows in the order of their ids, from cursor 0 on: at
	// most about budget bytes. No bytes and not last: not now, ask again later.
	Rows(cursor uint64, budget int) (data []byte, next uint64, last bool)
	// Past is what is kept of the state before its last ops, for reads that ask back. It is
	// asked for behind the last row. A copy without it, as programs before this one give it
	// and take it, has the state and cannot be asked back: empty, where that is so here.
	Past() []byte

	// Clear makes the state empty. Then Begin takes Rest's bytes, Install Rows', and
	// TakePart does an op as far as it concerns the rows that have come; behind all of
	// them End takes Past's.
	Clear()
	Begin(rest []byte)
	Install(rows []byte)
	TakePart(op *Op, note []byte)
	End(past []byte)
}

// DefaultFeedBytes is that of Options.FeedBytes.
const DefaultFeedBytes = 8 << 20

// CopyShare is which part of a joiner's link rows keep where ops and others would leave
// them less: an eighth.
const CopyShare = 8

// Pace is in bytes; 0 bounds nothing.
type Pace struct {
	Rows int // that may be on their way
	Item int // of them at a time
	// Feed is of rows and ops, from which on ops wait: what is on its way when all rows have
	// been sent has to arrive before an op is acknowledged.
	Feed int
}

// Options bound one group's memory; zero values get defaults.
type Options struct {
	ChunkBytes    int // of one Data message, 256 KiB
	InflightBytes int // sent to the successor and not acknowledged, 4 MiB
	LogOps        int // ordered and not committed, 256
	LogBytes      int // likewise, 64 MiB; one op may be larger
	FeedBytes     int // of a copy, sent and not acknowledged, 8 MiB
	ResendTicks   int // without progress before what is unacknowledged is sent again, 2; longer where acknowledgements take longer
	StuckTicks    int // without progress before a joiner is given up, 4800: two minutes of a lane that waits for others
}

func (o Options) orDefault() Options {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&o.ChunkBytes, 256<<10)
	set(&o.InflightBytes, 4<<20)
	set(&o.LogOps, 256)
	set(&o.LogBytes, 64<<20)
	set(&o.FeedBytes, DefaultFeedBytes)
	set(&o.ResendTicks, 2)
	set(&o.StuckTicks, 4800)
	return o
}

// Verdict is the answer to a submitted op.
type Verdict uint8

const (
	Ordered   Verdict = iota + 1 // it has a place; Done comes when it is committed
	Pending                      // it had one already; Done comes
	Duplicate                    // it is committed: acknowledge
	Gap                          // one before it has not come: hold it
	Wait                         // no room, or another is under way: try again later
	Elsewhere                    // this is not the head, or not in that epoch: "moved"
	Stranger                     // another process has the worker's number, or it left
)

func (v Verdict) String() string {
	return [...]string{"?", "ordered", "pending", "duplicate", "gap", "wait", "elsewhere", "stranger"}[v]
}

// Done says that a worker's op is committed: acknowledge it.
type Done struct {
	Header
	Epoch uint64
}

// ReportKind is what the shell must do something about.
type ReportKind uint8

const (
	// NeedMap: others have a map of epoch Epoch; get it.
	NeedMap ReportKind = iota + 1
	// Fence: call Fenced(Epoch) once none of Nodes serves readers any more.
	Fence
	// Caught: the joiner has all that is acknowledged, from now on, in Epoch.
	Caught
	// Held: nothing is under way and nothing will be in Epoch.
	Held
	// Stuck: Nodes, the joiner, has taken nothing of its copy for Options.StuckTicks in
	// Epoch; let it go, for others wait for it.
	Stuck
	// LostState: this node should have the group's rows and has not; cut it out.
	LostState
	// Deposed: the group is not this node's any more; its state was cleared.
	Deposed
	// Told: Ask's answer: ops up to Seq were committed when it was asked.
	Told
)

func (k ReportKind) String() string {
	return [...]string{"?", "need map", "fence", "caught", "held", "stuck", "lost state", "deposed", "told"}[k]
}

// Report is one of them.
type Report struct {
	Kind  ReportKind
	Epoch uint64
	Nodes []Node
	Ask   uint64
	Seq   uint64
}

// Output is what the machine wants done since it was taken last.
type Output struct {
	Messages []Message
	Done     []Done
	Reports  []Report
}
