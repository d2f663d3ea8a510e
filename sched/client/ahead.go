package client

import (
	"context"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// aheads are connections to the servers that are to lead groups soon. Making one takes
// some turns through a link that others keep full; when the head changes, who has one
// needs a single turn more, and its pulls wait no longer than that.
type aheads struct {
	c  *Client
	mu sync.Mutex
	on bool // the client is open: it has its number
	// job and epoch are of the map that is followed.
	job, epoch uint64
	by         map[int]*ahead
	// dialing bounds those that are made at a time.
	dialing chan struct{}
}

// ahead is one of them, for one group. With aheads.mu, but for what made guards.
type ahead struct {
	node   place.Node
	cancel context.CancelFunc
	begun  bool
	made   chan struct{} // closed when conn is there, or never will be
	conn   *dial.Conn
	speaks int32
	taken  bool // by a repair, which closes it
}

// aheadsMost bounds how many there are: the queues have room for them beside the groups'
// own. Servers turn a few groups at a time.
const aheadsMost = 16

// aheadWithin bounds the making of one: who takes longer is no help.
const aheadWithin = 10 * time.Second

// aheadsAtOnce bounds the connections that are made at a time: nobody waits for them.
const aheadsAtOnce = 4

func newAheads(c *Client) *aheads {
	return &aheads{c: c, by: map[int]*ahead{}, dialing: make(chan struct{}, aheadsAtOnce)}
}

// begin is when the client is open.
func (a *aheads) begin(m *place.Chains) {
	a.mu.Lock()
	a.on = true
	a.mu.Unlock()
	a.follow(m)
}

// follow begins a connection for each group that is to have another head, and ends those
// for groups that are not. One that failed is tried again by the next map.
func (a *aheads) follow(m *place.Chains) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.on || a.c.ctx.Err() != nil || m.Job <= a.job && m.Epoch < a.epoch {
		return
	}
	a.job, a.epoch = m.Job, m.Epoch
	for g, x := range a.by {
		heir, _, ok := m.Heir(g)
		head, _ := m.Head(g) // a repair takes it in a moment
		if (!ok || heir != x.node) && (head != x.node || a.c.homes.hasLeft(g)) {
			a.drop(g, x)
		}
	}
	for _, g := range m.Heirs() {
		if a.by[g] != nil || a.c.homes.hasLeft(g) || len(a.by) >= aheadsMost {
			continue
		}
		node, addr, _ := m.Heir(g)
		ctx, cancel := context.WithCancel(a.c.ctx)
		x := &ahead{node: node, cancel: cancel, made: make(chan struct{})}
		a.by[g] = x
		a.c.asking.Go(rdma.Guarded(a.c.cfg.Host.OnPanic(), func() { a.keep(ctx, g, x, addr, m.Epoch) }))
	}
}

// drop gives one up. With mu.
func (a *aheads) drop(g int, x *ahead) {
	if a.by[g] == x {
		delete(a.by, g)
	}
	x.cancel()
}

// keep makes a connection and has it until it is taken, given up or broken.
func (a *aheads) keep(ctx context.Context, g int, x *ahead, addr string, epoch uint64) {
	conn, speaks := a.make(ctx, g, x, addr, epoch)
	a.mu.Lock()
	if conn == nil {
		a.drop(g, x)
	}
	x.conn, x.speaks = conn, speaks
	close(x.made)
	a.mu.Unlock()
	if conn == nil {
		return
	}
	select {
	case <-conn.Done():
	case <-ctx.Done():
	}
	a.mu.Lock()
	a.drop(g, x)
	taken := x.taken
	a.mu.Unlock()
	if !taken { // nothing was asked over it
		_ = conn.Close()
	}
}

func (a *aheads) make(ctx context.Context, g int, x *ahead, addr string, epoch uint64) (*dial.Conn, int32) {
	select {
	case a.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, 0
	}
	defer func() { <-a.dialing }()
	a.mu.Lock()
	x.begun = true
	a.mu.Unlock()
	ctx, done := context.WithTimeout(ctx, aheadWithin)
	defer done()
	hello := psmsg.Hello{Chained: true, Group: g, Epoch: epoch, Ahead: true}
	conn, speaks, err := a.c.reach(ctx, a.c.servers[g], addr, hello)
	if err != nil {
		return nil, 0
	}
	return conn, speaks
}

// take gives the caller the connection to a group's new head, nil if there is none. It
// waits for one that is being made: another would take longer. One that has to wait for
// others, which may hang, is given up. That to another server stays: the caller may not have
// heard yet that it leads.
func (a *aheads) take(ctx context.Context, g int, node place.Node) (*dial.Conn, int32) {
	a.mu.Lock()
	x := a.by[g]
	same := x != nil && x.node == node
	usable := same && x.begun
	if same && !usable {
		a.drop(g, x)
	}
	a.mu.Unlock()
	if !usable {
		return nil, 0
	}
	select {
	case <-x.made:
	case <-ctx.Done():
		return nil, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by[g] != x || x.conn == nil {
		return nil, 0
	}
	x.taken = true
	a.drop(g, x)
	return x.conn, x.speaks
}
