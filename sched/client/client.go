package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/audit"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
)

// Client is one worker's connections to all lanes.
type Client struct {
	cfg      Config
	worker   int             // cfg.Worker, or the number that the first server gave
	numbered bool            // it did
	ctx      context.Context // the client's life; see Open
	unwatch  func() bool
	id       uint64 // tells this client from another that claims the same worker
	servers  []*serverConn
	lanes    []*laneConn
	mux      *dial.Mux
	cs       [64]rdma.Completion
	backlog  []rdma.Completion // polled by collect, not yet handled
	stale    []slotRef         // to be sent again: answered "stale ticket", or not taken by Post
	waited   time.Duration
	copied   CopiedBytes
	press    *press        // nil: pushes go as they are
	audit    *audit.Worker // nil: nobody wants a record
	gate     *stall.Gate   // where it waits
	// waitsForSlot: it does for room, not for an answer.
	waitsForSlot bool
	waiting      bool // the owner of a stepped client does
	slotBytes    int  // of its own rings
	rings        *shared
	hotMu        sync.Mutex
	hot          map[uint32]*hotTable // by table
	steps        bool                 // a stepped client has ended some
	readers      []*reader            // by group: whom pulls go to; nil: to the heads
	orphans      []part               // pulls that a reader did not answer, or with too old a version, and heads have no room for yet

	turn turns // taken in a job with replicas, and with Config.Shared

	// Of a job with replicas; else nil.
	resolver *resolver
	homes    *homes
	aheads   *aheads
	end      context.CancelCauseFunc
	keepers  sync.WaitGroup
	watchers sync.WaitGroup // of connections
	asking   sync.WaitGroup // the resolver
	heard    time.Time      // when a completion came last
	failed   error          // what ended it
	goesOn   bool           // for processes before it, from step from on; see GoOn
	from     uint64
	inexact  bool
	dead     chan struct{} // closed when failed is set
	// copyBytes is the function of that name, but in tests.
	copyBytes func(transport string) int
}

type serverConn struct {
	index     int // in Map.Servers
	addr      string
	speaks    atomic.Int32 // the protocol, since it was dialled
	firstLane int
	conn      *dial.Conn
	down      bool  // being connected again by a Repair
	trouble   error // why the last attempt of a keeper failed
}

// laneConn is the connection to one lane. Requests live in slots until they
// are answered.
type laneConn struct {
	index     int // global lane number
	server    *serverConn
	domain    rdma.Domain
	ep        rdma.Endpoint
	twin      rdma.Endpoint // by which answers come that have no values; nil: ep has all
	mapped    bool
	broken    error
	seq       uint64
	standing  psmsg.Standing // of the worker, when the client was opened
	newest    psmsg.Standing // when the lane was connected last
	before    uint64         // pushes of those whom the client goes on for
	landing   rdma.RemoteRange
	eager     int     // bytes of payload that a slot may carry
	stride    int     // from one slot of landing to the next
	buf       *shared // request slots, then reply slots of 64 bytes
	at        int     // where in buf
	slotBytes int     // of a request slot there
	parts     []part  // by slot
	out       [psmsg.Slots]outgoing
	standIns  [psmsg.Slots]*standIn
	copyBytes int // of the client's for this transport
	free      []int
	known     bool   // l.seq goes on after what a group has
	job       uint64 // of the map with which the group was reached last
	// base is the last sequence that a job before this one acknowledged: this job's sequences begin after it.
	base  uint64
	floor floors
	life  int  // counts the endpoints that the lane had
	void  Call // of pushes without rows, for which nobody waits
	voids int
	// let is where the server may still put answers that nobody waits for any more.
	let []*shared
}

// slotRef names a lane's slot.
type slotRef struct {
	lane *laneConn
	slot int
}

// Open connects to every server of the map, within Config.Timeout. ctx is the
// client's life: when it ends, every wait and every reconnect ends, at once and
// with ctx's cause.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cfg = c.cfg
	opening, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	if cfg.Chains != nil {
		c.chained()
		deadline, _ := opening.Deadline()
		err := c.openGroups(deadline)
		if err == nil {
			err = c.record()
		}
		if err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	}
	for _, s := range c.servers {
		if err := c.begin(opening, s); err != nil {
			c.Close()
			return nil, err
		}
	}
	if err := c.record(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Detached makes a client that connects to nobody: for the working sets of a worker whose
// rows another process pulls and pushes (Client.Carry). It numbers rows as that one's does,
// and has no use beside that.
func Detached(ctx context.Context, cfg Config) (*Client, error) { return newClient(ctx, cfg) }

func newClient(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{copyBytes: copyBytes, slotBytes: psmsg.SlotBytes, cfg: cfg, worker: cfg.Worker, ctx: ctx, id: psmsg.ClientOf(cfg.Generation, 1+rand.Uint64N(math.MaxUint64)), mux: dial.NewMux(cfg.queueDepth())}
	c.press = newPress(cfg.Compress, cfg.Even)
	c.mux.Guard(cfg.Host.OnPanic())
	for i, s := range cfg.Map.Servers {
		sc := &serverConn{index: i, addr: s.Addr, firstLane: cfg.Map.FirstLane(s.ID)}
		c.servers = append(c.servers, sc)
		for j := range cfg.Map.LanesOf(s.ID) {
			c.lanes = append(c.lanes, &laneConn{index: sc.firstLane + j, server: sc})
		}
	}
	c.gate = cfg.Stall.Gate()
	c.unwatch = context.AfterFunc(ctx, c.mux.Wake)
	c.turn.idle = sync.NewCond(&c.turn.mu)
	c.turn.on.Store(cfg.Shared) // of a job with replicas openGroups says
	return c, nil
}

// beginAttempts is how often a first connection is tried: a link that goes down
// in the middle is not offered the next time.
const beginAttempts = 3

func (c *Client) begin(ctx context.Context, s *serverConn) (err error) {
	for attempt := range beginAttempts {
		if attempt > 0 {
			c.collect()
		}
		// What took until a deadline is not tried again.
		err = c.connect(ctx, s)
		if !errors.As(err, new(*rdma.Error)) && !errors.Is(err, dial.ErrRefused) {
			return err
		}
	}
	return err
}

// attach gives a lane its endpoint. Buffers, sequence and unanswered requests
// stay what they were.
func (l *laneConn) attach(c *Client, ep rdma.Endpoint, d rdma.Domain) error {
	l.ep, l.twin, l.domain, l.mapped, l.broken = ep, nil, d, d.Caps().Mapped, nil
	l.copyBytes = c.copyBytes(d.Caps().Transport)
	l.life++
	l.let = nil
	for slot := range l.parts {
		l.parts[slot].written = nil // of the connection before
	}
	if l.buf == nil {
		if err := l.makeRing(c); err != nil {
			return err
		}
		l.parts = make([]part, psmsg.Slots)
		for i := range psmsg.Slots {
			l.free = append(l.free, i)
		}
	}
	return l.listen(ep)
}

// listen posts what replies arrive in.
func (l *laneConn) listen(ep rdma.Endpoint) error {
	recvs := make([]rdma.Recv, psmsg.Slots)
	for i := range recvs {
		recvs[i].ID = wrID(l.index, 0)
	}
	n, err := ep.PostRecv(recvs)
	if err == nil && n < len(recvs) {
		err = fmt.Errorf("client: only %d of %d receives could be posted", n, len(recvs))
	}
	return err
}

func (l *laneConn) slotBuf(slot int) []byte {
	return l.buf.arena.Bytes()[l.at+slot*l.slotBytes:][:l.slotBytes]
}

func (l *laneConn) replyBuf(slot int) []byte {
	return l.buf.arena.Bytes()[l.at+psmsg.Slots*l.slotBytes+slot*psmsg.ReplySlotBytes:][:psmsg.ReplySlotBytes]
}

func wrID(lane, slot int) uint64 { return uint64(lane)<<32 | uint64(slot) }

// issue takes a slot and posts p, waiting for a slot when all are taken.
func (c *Client) issue(p part) error {
	l := c.laneFor(&p)
	start := time.Now()
	deadline := start.Add(c.cfg.Timeout)
	if len(l.free) == 0 {
		c.gate.Enter(start)
		defer c.gate.Leave()
		c.waitsForSlot = true
	}
	for len(l.free) == 0 {
		if err := c.progress(deadline); err != nil {
			return fmt.Errorf("client: worker %d: no free slot at lane %d (%s): %w", c.worker, l.index, c.home(l.server.index), err)
		}
	}
	c.waitsForSlot = false
	slot := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	p.active = true
	p.call.owe(1)
	*p.uses()++
	l.parts[slot] = p
	c.noteSend(&l.parts[slot])
	return c.send(l, slot, deadline)
}

// send encodes and posts the request in a slot, reconnecting if need be.
func (c *Client) send(l *laneConn, slot int, deadline time.Time) error {
	if l.server.down {
		return nil // its keeper sends it
	}
	if err := c.encode(l, slot); err != nil {
		c.cannot(l, slot, err)
		return nil // its call says so
	}
	life := l.life
	for {
		err := l.post(slot)
		if err == nil {
			return nil
		}
		if !errors.Is(err, rdma.ErrDeadline) {
			// The completion of the failed request or the broken control
			// connection leads to a reconnect, which sends this slot too.
			l.broken = err
			if c.isReader(l) {
				c.breakReader(l)
				return nil
			}
			return c.repair(deadline)
		}
		if err := c.progress(deadline); err != nil {
			return err
		}
		if l.life != life || l.server.down {
			return nil // the reconnect has sent it, or will
		}
	}
}

// CopiedBytes counts payload that the client moved in user space: into request
// slots, with which what is small travels. What it is given and gives back lies
// where peers read and write it. See docs/zero-copy.md.
type CopiedBytes struct {
	KeysOut  uint64 `json:"keys_out"`
	GradsOut uint64 `json:"grads_out"`
}

// Copied counts since the client was opened.
func (c *Client) Copied() CopiedBytes {
	c.lock()
	defer c.unlock()
	return c.copied
}

// encode makes the request of a slot.
func (c *Client) encode(l *laneConn, slot int) error {
	return l.encode(&l.parts[slot], slot, &c.copied)
}

// Wait drives progress until call is done, Config.Timeout has passed or the
// client's context has ended.
func (c *Client) Wait(call *Call) error {
	if call.Done() {
		return call.err
	}
	c.lock()
	defer c.unlock()
	start := time.Now()
	deadline := start.Add(c.cfg.Timeout)
	c.gate.Enter(start)
	defer c.gate.Leave()
	for !call.Done() {
		if err := c.progress(deadline); err != nil {
			return fmt.Errorf("client: worker %d: %s at clock %d: %w%s", c.worker, call.what, call.clock, err, c.missing(call))
		}
	}
	c.waited += time.Since(start)
	return call.err
}

// Look is Poll by who waits in Rest, and not in Wait: it sees what the servers' control
// connections say, too, and while he is Waiting asks for a newer map where nothing comes.
func (c *Client) Look() error {
	c.lock()
	defer c.unlock()
	switch {
	case c.resolver == nil:
		c.notice()
	case c.waiting:
		c.doubt()
	}
	switch n := c.drain(); {
	case n > 0:
		c.gate.Moved()
	case c.gate.Due():
		c.describeStall()
	}
	return c.followUp(time.Now().Add(c.cfg.Timeout))
}

// Poll handles what has arrived without waiting.
func (c *Client) Poll() error {
	c.lock()
	defer c.unlock()
	c.drain()
	return c.followUp(time.Now().Add(c.cfg.Timeout))
}

// Glance is Poll by who computes meanwhile: it moves no bytes where the transport has
// somebody for that.
func (c *Client) Glance() error {
	c.lock()
	defer c.unlock()
	c.handle(c.mux.Take)
	return c.followUp(time.Now().Add(c.cfg.Timeout))
}

// followUp does what the completions just handled call for.
func (c *Client) followUp(deadline time.Time) error {
	if err := c.repair(deadline); err != nil {
		return err
	}
	for len(c.stale) > 0 {
		ref := c.stale[0]
		c.stale = c.stale[1:]
		if err := c.send(ref.lane, ref.slot, deadline); err != nil {
			return err
		}
	}
	if len(c.orphans) > 0 {
		c.placeOrphans()
	}
	return nil
}

// Waited is the time spent in Wait since the client was opened.
func (c *Client) Waited() time.Duration { return c.waited }

// missing names the lanes a call waits for.
func (c *Client) missing(call *Call) string {
	if c.resolver != nil {
		return c.missingGroups(call)
	}
	s := ""
	for _, l := range c.lanes {
		for i := range l.parts {
			if l.parts[i].active && l.parts[i].call == call {
				s += fmt.Sprintf("; waiting for lane %d of server %d (%s)", l.index-l.server.firstLane, l.server.index, l.server.addr)
				break
			}
		}
	}
	return s
}

// progress waits for something to happen and handles it.
func (c *Client) progress(deadline time.Time) error {
	if c.drain() > 0 {
		c.gate.Moved()
		return c.followUp(deadline)
	}
	if len(c.stale) > 0 {
		return c.followUp(deadline)
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if time.Now().After(deadline) {
		return rdma.ErrDeadline
	}
	until := time.Now().Add(time.Second) // look at the control connections now and then
	if c.resolver != nil {
		until = c.doubt()
	}
	if deadline.Before(until) {
		until = deadline
	}
	c.rest(until)
	if c.drain() > 0 {
		c.gate.Moved()
	}
	if c.gate.Due() {
		c.describeStall()
	}
	for _, s := range c.servers {
		if c.resolver != nil {
			break // heal looks
		}
		select {
		case <-s.conn.Done():
			for i := range c.cfg.Map.LanesOf(c.cfg.Map.Servers[s.index].ID) {
				if l := c.lanes[s.firstLane+i]; l.broken == nil {
					l.broken = fmt.Errorf("%s closed the connection", c.home(s.index))
				}
			}
		default:
		}
	}
	return c.followUp(deadline)
}

// collect takes completions out of the queues without handling them: what
// closed endpoints left there takes up room that their successors need.
func (c *Client) collect() {
	for {
		n := c.mux.Poll(c.cs[:])
		c.backlog = append(c.backlog, c.cs[:n]...)
		if n < len(c.cs) {
			return
		}
	}
}

// drain handles all completions at hand.
func (c *Client) drain() int { return c.handle(c.mux.Poll) }

// handle handles those that poll gives.
func (c *Client) handle(poll func([]rdma.Completion) int) int {
	total := 0
	for len(c.backlog) > 0 {
		comp := c.backlog[0]
		c.backlog = c.backlog[1:]
		c.complete(&comp)
		total++
	}
	for {
		n := poll(c.cs[:])
		for i := range c.cs[:n] {
			c.complete(&c.cs[i])
		}
		total += n
		if n < len(c.cs) {
			if total > 0 && c.resolver != nil {
				c.heard = time.Now()
			}
			return total
		}
	}
}
