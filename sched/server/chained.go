package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

const (
	// tickBusy and tickIdle are between two ticks of a lane that waits for others of its
	// chain, and of one that does not.
	tickBusy = 25 * time.Millisecond
	tickIdle = 200 * time.Millisecond
	// maxInbox bounds the messages that wait to be delivered.
	maxInbox = 1024
)

// chained is a lane's part in its group's chain: the shell around the machine. All of
// it is the lane's, but for what says otherwise.
type chained struct {
	l   *lane
	cfg *ChainConfig
	m   *chain.Machine

	head     bool // of the chain as adopted, and with the state
	failed   error
	waiting  [][]*request // by worker: ordered pushes, by rising sequence
	results  []result     // of the ops that this turn has committed
	calls    []*chainCall
	orderer  uint64           // the client as which this head orders what is no worker's; 0: not entered
	orders   uint64           // the last of these that has a place
	entering uint64           // the client that is to be the orderer, when that is committed
	made     func(table.Spec) // tells the server of a table that was opened while the job runs
	nextTick time.Time
	taking   taking
	copying  copying
	pace     pace
	unborn   []uint64 // of the pull that is being answered
	dirty    bool     // something was taken or installed
	running  bool     // the last op is to be applied with the next
	arrived  bool     // some session has a push that is whole, or flows
	flow     flowing
	flowed   uint64 // pushes that were ordered before all of them was here
	whole    []*request
	vacant   bool // workers begin as having left

	epoch  atomic.Uint64 // adopted
	served atomic.Bool   // head
	speaks atomic.Int64  // the newest version of the wire that all of the chain do
	shows  atomic.Bool   // readers may be here
	stats  atomic.Pointer[ChainStats]

	// The lease, in nanoseconds since start; any goroutine's.
	start      time.Time
	leaseMu    sync.Mutex
	leaseEpoch uint64
	leaseUntil time.Time

	peers peers
	heard bool // something came over a link in this turn

	mu    sync.Mutex
	inbox []chain.Message
}

// result is what an op that was committed has led to.
type result struct {
	seq     uint64
	merged  bool // the next op is of the same run
	code    psmsg.Code
	version uint64
	refused int
	value   any
	err     error
}

func newChained(l *lane) *chained {
	c := &chained{l: l, cfg: l.cfg.Chain, waiting: make([][]*request, l.cfg.Workers), start: time.Now()}
	c.speak(0)
	c.peers.all, c.peers.dialing = map[uint32]*peer{}, map[chain.Node]bool{}
	c.peers.ctx, c.peers.cancel = context.WithCancel(context.Background())
	c.m = chain.New(c.cfg.Self, c.cfg.Group, c.cfg.Options, c)
	c.publish()
	return c
}

func (c *chained) setLease(epoch uint64, until time.Time) {
	now := time.Now()
	c.leaseMu.Lock()
	was := c.leaseEpoch == epoch && now.Before(c.leaseUntil)
	c.leaseEpoch, c.leaseUntil = epoch, until
	c.leaseMu.Unlock()
	if !was && now.Before(until) {
		c.l.mux.Wake()
	}
}

// lease tells the machine whether readers may be served at this moment.
func (c *chained) lease() bool {
	c.leaseMu.Lock()
	on := c.leaseEpoch == c.m.Epoch() && time.Now().Before(c.leaseUntil)
	c.leaseMu.Unlock()
	c.m.Lease(on && c.failed == nil)
	return on && c.failed == nil
}

func (c *chained) deliver(m chain.Message) {
	c.mu.Lock()
	full := len(c.inbox) >= maxInbox
	if !full {
		c.inbox = append(c.inbox, m)
	}
	c.mu.Unlock()
	if !full {
		c.l.mux.Wake()
	}
}

// adopt takes a newer chain. A head that is one no more ends its sessions: their
// workers ask for the map and send again what was not acknowledged.
func (c *chained) adopt(cfg chain.Config) {
	if cfg.Epoch <= c.m.Epoch() {
		return
	}
	stays := len(cfg.Chain) > 0 && cfg.Chain[0].Node == c.cfg.Self
	if !stays {
		c.endSessions(cfg.Epoch)
		c.l.endCut(false)
	}
	c.stopCopy()
	c.newPace()
	wasHead := c.head
	c.m.Adopt(cfg)
	c.head = c.m.Head()
	if !c.head || !wasHead {
		c.orderer, c.entering = 0, 0
	}
	if !c.head {
		c.endSessions(cfg.Epoch)
	}
	if c.speak(cfg.Speaks) && c.head { // what they send might be passed on as it is; or they may use what is newer
		c.endSome(c.l.pushers())
	}
	c.epoch.Store(cfg.Epoch)
	c.served.Store(c.head)
	if c.shows.Store(c.showsNow()); !c.shows.Load() {
		c.endSome(c.l.readers)
	}
	c.nextTick, c.peers.retry = time.Time{}, time.Time{}
	c.leaveOthers()
	c.turn(time.Now())
}

// pushers are the sessions that may push, those that are not open yet among them.
func (l *lane) pushers() (all []*session) {
	for _, s := range l.sessions {
		if !s.reads {
			all = append(all, s)
		}
	}
	return all
}

// endSome ends sessions: their workers ask elsewhere.
func (c *chained) endSome(of []*session) {
	for _, s := range slices.Clone(of) {
		if s != nil {
			c.l.drop(s, c.moved())
		}
	}
}

// endSessions ends the sessions of workers, but for those that only read or wait for this
// server to lead, and the calls that wait for an op in a chain of up to an epoch.
func (c *chained) endSessions(epoch uint64) {
	c.endSome(slices.DeleteFunc(c.l.pushers(), func(s *session) bool { return s.ahead }))
	for w := range c.waiting {
		c.waiting[w] = nil
	}
	c.calls = slices.DeleteFunc(c.calls, func(k *chainCall) bool {
		if k.since > epoch {
			return false
		}
		k.end(nil, c.moved())
		return true
	})
}

// turn goes on with the chain: what others have sent, what sessions have for it, and
// what came of both. It returns whether there was anything.
func (c *chained) turn(now time.Time) (some bool) {
	c.mu.Lock()
	inbox := c.inbox
	c.inbox = nil
	c.mu.Unlock()
	if c.failed != nil {
		return c.sitOut(now)
	}
	c.lease()
	for i := range inbox {
		c.step(&inbox[i])
	}
	some = len(inbox) > 0 || c.heard
	c.heard = false
	if c.copying.waits && len(c.l.looking) == 0 {
		c.copying.waits = false // Rows says so again, if it is asked: not while the joiner has enough on its way
		c.m.Drive()
		some = true
	}
	due := !now.Before(c.nextTick)
	if due {
		c.m.Tick()
		c.nextTick = now.Add(tickIdle)
		c.publish()
		some = true
	}
	some = c.flush() || some
	if some || c.arrived || len(c.calls) > 0 {
		c.again()
		c.flush()
	}
	c.reach(now)
	c.post()
	if soon := now.Add(tickBusy); soon.Before(c.nextTick) && c.isBusy() {
		c.nextTick = soon
	}
	return some
}

// sitOut says again that this copy is none. Where there is no other, who waits for what
// it could not do is told.
func (c *chained) sitOut(now time.Time) bool {
	c.endSome(c.l.readers)
	if c.isLost() {
		c.endFlow()
		c.flush()
		c.refuseAll()
	}
	c.post()
	if now.Before(c.nextTick) {
		return false
	}
	c.nextTick = now.Add(tickIdle)
	c.publish()
	c.cfg.OnReport(chain.Report{Kind: chain.LostState, Epoch: c.m.Epoch()})
	return false
}

// isLost says whether this copy failed, and is the last one: what the group had is in no
// server any more.
func (c *chained) isLost() bool {
	all := c.m.Config().Chain
	return c.failed != nil && len(all) == 1 && all[0].Node == c.cfg.Self
}

// errLost is what callers are told of a group that is lost.
func (c *chained) errLost() error {
	return fmt.Errorf("server: group %d is lost: its last copy could not do what the ones before it did not either: %w; start anew from a checkpoint or a saved model, with what it lacked", c.cfg.Group, c.failed)
}

// refuseAll answers whatever waits here of a group that can do nothing any more.
func (c *chained) refuseAll() {
	for _, k := range c.calls {
		k.end(nil, c.errLost())
	}
	c.calls = nil
	keep := c.l.parked[:0]
	for _, r := range c.l.parked {
		if r.s.broken { // flush drops it, and what it asked
			keep = append(keep, r)
			continue
		}
		c.l.refuse(r, psmsg.CodeNoMemory)
	}
	clear(c.l.parked[len(keep):])
	c.l.parked = keep
	for _, s := range c.l.current {
		if s == nil || s.broken || !s.open {
			continue
		}
		for _, r := range slices.Clone(s.order) {
			if r.fetch.left == 0 {
				c.l.refuse(r, psmsg.CodeNoMemory)
			}
		}
	}
}

// isBusy says whether the lane waits for somebody.
func (c *chained) isBusy() bool {
	cfg := c.m.Config()
	return c.m.LogOps() > 0 || cfg.Joiner != nil || len(c.calls) > 0 || len(c.l.parked) > 0
}

// again tries what could not be ordered.
func (c *chained) again() {
	c.takePushes()
	c.tryCalls()
}

// flush does what the machine wants, and returns whether that was anything.
func (c *chained) flush() (some bool) {
	for {
		out := c.m.Outputs()
		if len(out.Messages)+len(out.Done)+len(out.Reports) == 0 {
			c.results = c.results[:0]
			return some
		}
		some = true
		for i, m := range out.Messages {
			if !outdated(&m, out.Messages[i+1:]) {
				c.send(m)
			}
		}
		for _, d := range out.Done {
			c.done(d)
		}
		for _, r := range out.Reports {
			c.cfg.OnReport(r)
		}
	}
}

// outdated says whether a message, of what is here or was done, is followed by one that
// says more: one answer does for all that a turn has brought.
func outdated(m *chain.Message, later []chain.Message) bool {
	if m.Kind != chain.Ack && m.Kind != chain.Fed {
		return false
	}
	return slices.ContainsFunc(later, func(o chain.Message) bool { return o.Kind == m.Kind && o.To == m.To && o.Epoch == m.Epoch })
}

func (c *chained) send(m chain.Message) {
	if c.failed != nil {
		return
	}
	if it := m.Item; it != nil && it.Op != nil && it.Op.Kind == chain.Push {
		if body := c.asOld(&it.Op.Header, it.Op.Body); len(body) > 1 && body[1] != it.Op.Body[1] {
			old, op := *it, *it.Op
			op.Body, op.Size = body, len(body)
			old.Op = &op
			m.Item = &old
		}
	}
	c.leaves(&m)
	if c.cfg.Send != nil {
		c.cfg.Send(m)
	} else if p := c.peerOf(m.To); p != nil {
		p.link.Send(&m)
		p.moved = true
	}
}

// fail gives this copy up: it differs from the others', or would. Who decides cuts it
// out; until then, which may be epochs later, it takes part in nothing.
func (c *chained) fail(err error) {
	if c.failed != nil {
		return
	}
	if failed := c.l.deviceError(); failed != nil { // it says which, where what met it does not
		err = failed
	}
	c.failed = err
	c.l.was.whole = false // it may have failed in the middle of a step
	c.shows.Store(false)
	c.l.refusal = err
	c.cfg.OnReport(chain.Report{Kind: chain.LostState, Epoch: c.m.Epoch()})
}

func (c *chained) publish() {
	cfg := c.m.Config()
	st := &ChainStats{Epoch: cfg.Epoch, Position: slices.IndexFunc(cfg.Chain, func(m chain.Member) bool { return m.Node == c.cfg.Self }),
		Members: len(cfg.Chain), Head: c.head, Joining: cfg.Joiner != nil && cfg.Joiner.Node == c.cfg.Self, Leased: c.lease(),
		Committed: c.m.Committed(), LogOps: c.m.LogOps(), LogBytes: c.m.LogBytes(), Flowed: c.flowed}
	for _, w := range c.waiting {
		st.Waiting += len(w)
	}
	if c.failed != nil {
		st.Failed = c.failed.Error()
	}
	c.stats.Store(st)
}
