package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/audit"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// Read says where the workers of a job with replicas pull from.
type Read uint8

const (
	// ReadHead pulls from the heads, which take the pushes too.
	ReadHead Read = iota
	// ReadAny pulls each group's rows from some member of its chain, each worker from
	// another one, and from the head where that one is not reached. It takes up to twice
	// as many queue pairs.
	ReadAny
)

// reader is the connection to the member of a group's chain that is read from, beside
// the one to its head. A goroutine makes it, and gives it up where it breaks or where
// the map has another member for it; what it had been asked is then asked of the head.
type reader struct {
	lane *laneConn // its index is the group's, behind those of all heads
	up   bool      // with the turn, as all of it
	conn *dial.Conn
	node place.Node
}

// BeginReaders has a stepped client connect members to read from; its owner's Turn works.
func (c *Client) BeginReaders() { c.makeReaders() }

// makeReaders begins to connect members to read from; the heads are connected. With
// the turn.
func (c *Client) makeReaders() {
	if c.resolver == nil || c.cfg.Read != ReadAny || c.readers != nil {
		return
	}
	for g, head := range c.lanes {
		r := &reader{lane: &laneConn{index: len(c.lanes) + g, floor: head.floor, server: &serverConn{index: g, firstLane: g, down: true}}}
		c.readers = append(c.readers, r)
	}
	for g := range c.readers {
		c.keepers.Go(rdma.Guarded(c.cfg.Host.OnPanic(), func() { c.keepReader(g) }))
	}
}

// Readers is how many groups are read from another member than their head now.
func (c *Client) Readers() (n int) {
	c.lock()
	defer c.unlock()
	for _, r := range c.readers {
		if r.up {
			n++
		}
	}
	return n
}

// laneOf is the lane of a completion.
func (c *Client) laneOf(id uint64) *laneConn {
	if i := int(id>>32) - len(c.lanes); i >= 0 && i < len(c.readers) {
		return c.readers[i].lane
	}
	return c.lanes[int(id>>32)%len(c.lanes)]
}

// laneFor is where a request goes: pulls to the group's reader, if there is one that has
// room. With the turn.
func (c *Client) laneFor(p *part) *laneConn {
	isPull := (p.kind == psmsg.KindPull || p.kind == psmsg.KindPullDense) && p.flags&psmsg.FlagNoValues == 0
	if c.readers != nil && isPull {
		if r := c.readers[p.lane]; r.up && r.lane.broken == nil && len(r.lane.free) > 0 && r.lane.reaches(p) {
			return r.lane
		}
	}
	return c.lanes[p.lane]
}

// reaches says whether the member writes what is asked for where it shall be: over shared
// memory it cannot reach memory of a trainer's own that has no file.
func (l *laneConn) reaches(p *part) bool {
	var m *shared
	switch {
	case p.dense != nil && p.dense.lent:
		m = p.dense.arena
	case p.rows != nil && p.rows.lean == noRows:
		m = p.rows.lent.memory.s
	default:
		return true
	}
	return l.reachesMemory(m)
}

// isReader says whether a lane is a reader's.
func (c *Client) isReader(l *laneConn) bool { return l.index >= len(c.lanes) }

// breakReader gives up a reader whose lane has broken: its keeper learns of it.
func (c *Client) breakReader(l *laneConn) {
	if r := c.readers[l.index-len(c.lanes)]; r.up {
		r.up = false
		hangUp(r.conn)
	}
}

// readAt is whom a worker reads a group from; ok: it is not the head. Members take
// equal shares, and most workers stay with theirs when others come and go.
func (r *resolver) readAt(group, worker int) (h head, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.newest
	h = head{epoch: m.Epoch, until: r.changed}
	best, most := 0, uint64(0)
	for i, member := range m.Groups[group].Chain {
		n := m.Node(member.Server)
		score := place.Mix(place.Mix(uint64(n.Server)<<32|uint64(group)) ^ uint64(worker))
		if i == 0 || score > most {
			best, most = i, score
			h.node, h.addr = n, m.Servers[m.Index(member.Server)].Addr
		}
	}
	return h, best > 0
}

// Between attempts at the same member the pause doubles from the first to the last of
// these; the head is read from meanwhile.
const (
	firstReaderPause = 50 * time.Millisecond
	lastReaderPause  = 5 * time.Second
	// steadyReader is how long a reader lives that may be connected again at once.
	steadyReader = time.Second
)

// keepReader has a group's reader, as long as the client lives.
func (c *Client) keepReader(group int) {
	r, pause := c.readers[group], firstReaderPause
	for c.ctx.Err() == nil {
		to, ok := c.resolver.readAt(group, c.worker)
		if !ok {
			select {
			case <-to.until:
			case <-c.ctx.Done():
			}
			continue
		}
		conn, err := c.connectReader(r, to)
		lived := time.Duration(0)
		if err == nil {
			began := time.Now()
			c.useReader(r, conn, to)
			lived = time.Since(began)
		} else if c.ctx.Err() == nil {
			c.resolver.refresh()
		}
		if conn != nil {
			c.retireReader(r, conn)
		}
		var wait time.Duration
		if wait, pause = afterReader(pause, lived); wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-to.until:
			case <-c.ctx.Done():
			}
			t.Stop()
		}
	}
}

// afterReader is how long to wait after a reader that lived so long, 0 if it was never
// connected, and the pause after the next. One that breaks at once is no better than none.
func afterReader(pause, lived time.Duration) (wait, next time.Duration) {
	if lived >= steadyReader {
		return 0, firstReaderPause
	}
	return pause, min(2*pause, lastReaderPause)
}

// useReader returns when a reader is to be given up.
func (c *Client) useReader(r *reader, conn *dial.Conn, at head) {
	for {
		select {
		case <-conn.Done():
			return
		case <-c.ctx.Done():
			return
		case <-at.until:
		}
		now, ok := c.resolver.readAt(r.lane.server.index, c.worker)
		if !ok || now.node != at.node {
			return
		}
		at = now
	}
}

// connectReader connects a group's reader. What it began and could not finish the
// caller retires.
func (c *Client) connectReader(r *reader, to head) (conn *dial.Conn, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Timeout)
	defer cancel()
	s := r.lane.server
	ctx, done := c.resolver.whileMember(ctx, s.index, to.node)
	defer done()
	turn := func(f func()) error {
		if !c.alone(f) {
			return errClosed
		}
		return err
	}
	if err := turn(c.collect); err != nil {
		return nil, err
	}
	conn, err = c.dialAt(ctx, s, to.addr, psmsg.Hello{Chained: true, Group: s.index, Epoch: to.epoch, Reads: true})
	if err != nil {
		return nil, err
	}
	var open psmsg.OpenRequest
	if err := turn(func() {
		if err = r.lane.attach(c, conn.Endpoints[0], conn.Domains[0]); err == nil {
			var replies rdma.RemoteRange
			replies, err = r.lane.buf.remote(r.lane.domain, r.lane.at+psmsg.Slots*r.lane.slotBytes, psmsg.Slots*psmsg.ReplySlotBytes)
			open.Replies = append(open.Replies, replies)
		}
	}); err != nil {
		return conn, err
	}
	rep, err := c.exchange(ctx, s, conn, open)
	if err != nil {
		return conn, err
	}
	return conn, turn(func() {
		l := r.lane
		if err = l.broken; err != nil {
			return
		}
		l.landing = rep.Landing[0]
		l.stride = int(l.landing.Len / psmsg.Slots)
		l.eager = min(max(rep.Eager, 0), l.stride-psmsg.RequestBytes)
		s.addr, s.conn, s.down = to.addr, conn, false
		r.conn, r.node, r.up = conn, to.node, true
	})
}

// retireReader ends a reader's connection, and hands what it had been asked to the
// group's head: not before the connection is closed, for nothing of the old answers may
// come after the new.
func (c *Client) retireReader(r *reader, conn *dial.Conn) {
	c.alone(func() { r.up, r.lane.server.down = false, true })
	inside := conn.Close()
	c.alone(func() {
		l := r.lane
		if inside != nil {
			if err := c.recall(l); err != nil {
				c.ends(err)
				return
			}
		}
		l.ep, r.conn = nil, nil
		l.life++
		c.stale = slices.DeleteFunc(c.stale, func(ref slotRef) bool { return ref.lane == l })
		for slot := range l.parts {
			if l.parts[slot].active {
				c.orphan(l, slot)
			}
		}
		c.placeOrphans()
	})
}

// orphan takes what a reader was asked in a slot, for the head. With the turn.
func (c *Client) orphan(l *laneConn, slot int) {
	p := l.parts[slot]
	p.written = nil
	c.orphans = append(c.orphans, p)
	l.parts[slot] = part{}
	l.free = append(l.free, slot)
}

// placeOrphans asks the heads what readers did not answer, as far as there is room.
// With the turn.
func (c *Client) placeOrphans() {
	c.orphans = slices.DeleteFunc(c.orphans, func(p part) bool {
		l := c.lanes[p.lane]
		if len(l.free) == 0 {
			return false
		}
		slot := l.free[len(l.free)-1]
		l.free = l.free[:len(l.free)-1]
		l.parts[slot] = p
		if !l.server.down && l.broken == nil { // else who connects it sends it
			c.try(l, slot)
		}
		return true
	})
}

// readingFrom names the member that owes a group's pulls, where it is not the head.
// With the turn.
func (c *Client) readingFrom(call *Call, group int) (text string, owes bool) {
	is := func(p part) bool { return p.active && p.call == call && p.lane == group }
	if c.readers != nil && slices.ContainsFunc(c.readers[group].lane.parts, is) {
		r := c.readers[group]
		return fmt.Sprintf("; waiting for group %d (read from server %d at %s)", group, r.node.Server, r.lane.server.addr), true
	}
	if slices.ContainsFunc(c.orphans, is) {
		return fmt.Sprintf("; group %d has no room for a pull that was sent elsewhere before", group), true
	}
	return "", false
}

// floors are, by table, the newest version of a group that the worker was shown: it
// reads none that is older, whichever member it asks.
type floors map[uint32]uint64

func floorOf(p *part) uint32 {
	if p.rows != nil {
		return p.rows.spec.ID
	}
	return audit.DenseTable
}

// overtaken says whether a pull's answer is older than what another pull, asked elsewhere,
// has brought since this one was sent. It is asked again then, and for that version. What a
// server answers though it was asked for a newer one (of a step that is over) stays.
func (c *Client) overtaken(l *laneConn, p *part, rep *psmsg.Reply) bool {
	isPull := p.kind == psmsg.KindPull || p.kind == psmsg.KindPullDense
	return c.readers != nil && isPull && p.flags&psmsg.FlagNoValues == 0 && rep.Code == psmsg.CodeOK && rep.Version > 0 && rep.Version >= p.least && rep.Version < l.floor[floorOf(p)]
}

// raise notes the version that an answer names.
func (f floors) raise(p *part, version uint64) {
	if f != nil && version > 0 {
		f[floorOf(p)] = max(f[floorOf(p)], version)
	}
}
