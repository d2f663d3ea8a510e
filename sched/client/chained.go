package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"psrt/rdma"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// chained makes what a client of a job with replicas has beside.
func (c *Client) chained() {
	c.ctx, c.end = context.WithCancelCause(c.ctx)
	c.slotBytes = psmsg.ChainedSlotBytes
	c.dead = make(chan struct{})
	c.heard = time.Now()
	c.homes = newHomes(len(c.servers))
	for _, l := range c.lanes {
		l.floor = floors{}
	}
	c.aheads = newAheads(c)
	c.resolver = newResolver(c.cfg.Host, c.cfg.Chains, func(m *place.Chains) {
		c.homes.follow(m)
		c.aheads.follow(m)
	})
	c.resolver.restarts = c.cfg.Restarts
	c.asking.Go(rdma.Guarded(c.cfg.Host.OnPanic(), func() { c.resolver.run(c.ctx) }))
	if c.cfg.Generation == 0 {
		c.id = risingID(time.Now())
	}
}

// risingID is a client's number that is greater than those of the processes before
// it, which have none of their own: a chain lets a later one take the worker over.
func risingID(now time.Time) uint64 { return uint64(now.UnixMicro())<<12 | rand.Uint64N(1<<12) }

// makeRing gives a lane its rings: of a group a part of one arena, for groups are
// many.
func (l *laneConn) makeRing(c *Client) error {
	l.slotBytes = c.slotBytes
	ring := psmsg.Slots * (l.slotBytes + psmsg.ReplySlotBytes)
	all := 1
	if c.resolver != nil {
		all, l.at = len(c.lanes)*c.cfg.lanesEach(), l.index*ring
	}
	b := c.rings
	if b == nil {
		var err error
		if b, err = c.share(all*ring, "worker request ring"); err != nil {
			return err
		}
	}
	if c.resolver != nil {
		c.rings = b
	}
	l.buf = b
	return nil
}

// doubtAfter is how long nothing comes before another server is asked for the map:
// a head that was stopped says nothing, nor do servers that are cut off.
const doubtAfter = 300 * time.Millisecond

// doubt says until when the owner waits before it looks again. With the turn.
func (c *Client) doubt() time.Time {
	now := time.Now()
	if now.Sub(c.heard) >= doubtAfter {
		c.heard = now
		c.resolver.refresh()
	}
	return now.Add(doubtAfter)
}

// errHeadMoved ends what was begun at a server that is not the head any more,
// errMemberMoved what was begun at one that is not in the chain.
var (
	errHeadMoved   = errors.New("client: the group has another head")
	errMemberMoved = errors.New("client: the server has left the group")
)

// while is a context that ends when a group has another head than node.
func (r *resolver) while(ctx context.Context, group int, node place.Node) (context.Context, func()) {
	return r.whileIs(ctx, group, errHeadMoved, func(chain []place.Node) bool { return chain[0] == node })
}

// whileMember is one that ends when node is not in a group's chain any more.
func (r *resolver) whileMember(ctx context.Context, group int, node place.Node) (context.Context, func()) {
	return r.whileIs(ctx, group, errMemberMoved, func(chain []place.Node) bool { return slices.Contains(chain, node) })
}

func (r *resolver) whileIs(ctx context.Context, group int, cause error, is func(chain []place.Node) bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go rdma.Guarded(r.host.OnPanic(), func() {
		for {
			h := r.head(group)
			if !is(h.chain) {
				cancel(cause)
				return
			}
			select {
			case <-h.until:
			case <-ctx.Done():
				return
			}
		}
	})()
	return ctx, func() { cancel(nil) }
}

// dialHead dials the head of the newest map.
func (r *Repair) dialHead(ctx context.Context) error {
	k := r.c.resolver
	r.c.homes.set(r.s.index, place.Node{}, nil)
	r.to = k.head(r.s.index)
	ctx, done := k.while(ctx, r.s.index, r.to.node)
	defer done()
	if conn, speaks := r.c.aheads.take(ctx, r.s.index, r.to.node); conn != nil {
		r.s.speaks.Store(speaks)
		r.conn = conn
		return nil
	}
	conn, err := r.c.dialAt(ctx, r.s, r.to.addr, psmsg.Hello{Chained: true, Group: r.s.index, Epoch: r.to.epoch})
	if err != nil {
		k.note(r.to.addr, "", err)
		k.refresh()
		return takenOver(err)
	}
	r.conn = conn
	return nil
}

// exchangeHead is Exchange with a head, which answers when its chain knows the worker.
func (r *Repair) exchangeHead(ctx context.Context) (err error) {
	ctx, done := r.c.resolver.while(ctx, r.s.index, r.to.node)
	defer done()
	r.open.Since = r.to.since
	r.rep, err = r.c.exchange(ctx, r.s, r.conn, r.open)
	if err != nil {
		r.c.resolver.note(r.to.addr, "", err)
		r.c.resolver.refresh()
	}
	return takenOver(err)
}

// LostPushesError: a group's head does not have what was acknowledged.
type LostPushesError struct {
	Worker, Group      int
	Acknowledged, Last uint64
}

func (e *LostPushesError) Error() string {
	return fmt.Sprintf("client: worker %d: group %d has this worker's pushes up to %d, %d were acknowledged: acknowledged pushes are lost; load a checkpoint", e.Worker, e.Group, e.Last, e.Acknowledged)
}

// arrived takes a head's word on what of this worker is committed.
func (c *Client) arrived(r *Repair) error {
	l := c.lanes[r.s.firstLane]
	if len(r.rep.Standing) > 0 {
		last := r.rep.Standing[0].Last
		restarted := l.job != 0 && r.to.job > l.job
		l.job = max(l.job, r.to.job)
		had := l.nextToSend() - 1
		switch {
		case !l.known:
			l.seq, l.known = last, true
		case last+l.base >= had:
		case restarted: // the job that acknowledged them has ended
			l.base = had - last
		default:
			return &LostPushesError{c.worker, r.s.index, had, last + l.base}
		}
		if restarted {
			clear(l.floor)
		}
	}
	c.homes.set(r.s.index, r.to.node, r.conn)
	if c.resolver.head(r.s.index).node != r.to.node { // it was news before
		hangUp(r.conn)
	}
	return nil
}

// why is what made a repair necessary.
func (r *Repair) why() string {
	if r.Cause == nil {
		return "it is connected for the first time"
	}
	return "lost: " + r.Cause.Error()
}

// Between attempts at the same head the pause doubles from the first to the last of
// these; a newer map ends it.
const (
	firstHeadPause = 10 * time.Millisecond
	lastHeadPause  = 500 * time.Millisecond
)

// Pause is between the failures of an attempt and the next; n counts from 0.
func (r *Repair) Pause(ctx context.Context, n int) {
	pause, news := firstPause, (<-chan struct{})(nil)
	last := lastPause
	if r.c.resolver != nil {
		pause, last, news = firstHeadPause, lastHeadPause, r.to.until
	}
	t := time.NewTimer(min(pause<<min(n, 10), last))
	defer t.Stop()
	select {
	case <-t.C:
	case <-news:
	case <-ctx.Done():
	}
}

// Link is how the heads of some groups are reached.
type Link struct {
	Server     int  // -1: the groups have no head now
	Reads      bool // not their head: pulls alone go there
	Groups     int
	QueuePairs int
	Reason     string // transport and why
}

// Links are the servers that the client's groups are connected to now.
func (c *Client) Links() []Link {
	c.lock()
	defer c.unlock()
	var all []Link
	at := map[Link]int{}
	for _, s := range c.servers {
		l := Link{Server: s.index, Reason: "nothing yet"}
		if c.homes != nil {
			l.Server = c.homes.server(s.index)
		}
		if s.conn != nil {
			l.Reason = s.conn.Reason
		}
		i, ok := at[l]
		if !ok {
			i = len(all)
			at[l] = i
			all = append(all, l)
		}
		all[i].Groups++
		all[i].QueuePairs += len(c.lanesOf(s))
	}
	for g, r := range c.readers {
		if !r.up {
			continue
		}
		l := Link{Server: r.node.Server, Reads: true, Reason: r.conn.Reason}
		i, ok := at[l]
		if !ok {
			i = len(all)
			at[l] = i
			all = append(all, l)
		}
		all[i].Groups++
		all[i].QueuePairs += len(c.lanesOf(c.servers[g]))
	}
	return all
}

func (h *homes) server(group int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[group].conn == nil {
		return -1
	}
	return h.all[group].node.Server
}

// missingGroups names the groups that a call waits for, what is wrong with those that
// are not connected, and what the servers say. With the turn.
func (c *Client) missingGroups(call *Call) string {
	text, named, more, down := "", 0, 0, false
	for _, l := range c.lanes {
		if !slices.ContainsFunc(l.parts, func(p part) bool { return p.active && p.call == call }) {
			more, owes := c.readingFrom(call, l.index)
			if owes && named < maxReported {
				named++
				text += more
			}
			continue
		}
		down = down || l.server.down
		if named++; named > maxReported {
			more++
			continue
		}
		switch {
		case l.server.trouble != nil:
			text += fmt.Sprintf("; group %d is not connected: %v", l.index, l.server.trouble)
		case l.server.down:
			text += fmt.Sprintf("; group %d is being connected to %s", l.index, l.server.addr)
		default:
			text += fmt.Sprintf("; waiting for group %d (server %d at %s)", l.index, c.homes.server(l.index), l.server.addr)
		}
	}
	if more > 0 {
		text += fmt.Sprintf("; and for %d groups more", more)
	}
	if down {
		text += "; " + c.resolver.report()
	}
	return text
}

// Head is who leads a group, and since when it has its rows.
type Head struct {
	place.Node
	Joined uint64 // epoch
}

// Heads are those of all groups by the newest map that is known here; nil in a job
// without chains. Any goroutine.
func (c *Client) Heads() []Head {
	if c.resolver == nil {
		return nil
	}
	m := c.resolver.latest()
	heads := make([]Head, len(m.Groups))
	for g := range m.Groups {
		first := m.Groups[g].Chain[0]
		heads[g] = Head{m.Node(first.Server), first.Joined}
	}
	return heads
}
