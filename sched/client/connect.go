package client

import (
	"context"
	"encoding/json"
	"fmt"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/psmsg"
)

func (c *Client) lanesOf(s *serverConn) []*laneConn {
	return c.lanes[s.firstLane : s.firstLane+c.cfg.Map.LanesOf(c.cfg.Map.Servers[s.index].ID)]
}

// connect dials one server and exchanges rings with all its lanes. What it
// began and could not finish is closed again: it holds room in queues here and
// at the server that the next attempt needs.
func (c *Client) connect(ctx context.Context, s *serverConn) (err error) {
	conn, err := c.dial(ctx, s)
	if err != nil {
		return err
	}
	s.conn = conn
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	open, err := c.attach(s, conn)
	if err != nil {
		return err
	}
	rep, err := c.exchange(ctx, s, conn, open)
	if err != nil {
		return err
	}
	c.opened(s, rep)
	return nil
}

// dial makes the connection and its endpoints. It touches nothing that other
// goroutines of a stepped client may touch at the time.
func (c *Client) dial(ctx context.Context, s *serverConn) (*dial.Conn, error) {
	return c.dialAt(ctx, s, s.addr, psmsg.Hello{})
}

// dialAt dials a server where it is, with what hello has beside the usual.
func (c *Client) dialAt(ctx context.Context, s *serverConn, addr string, hello psmsg.Hello) (*dial.Conn, error) {
	conn, speaks, err := c.reach(ctx, s, addr, hello)
	if err == nil {
		s.speaks.Store(speaks)
	}
	return conn, err
}

// reach is dialAt that does not say yet which protocol is spoken with the server.
func (c *Client) reach(ctx context.Context, s *serverConn, addr string, hello psmsg.Hello) (conn *dial.Conn, speaks int32, err error) {
	hello.Worker, hello.Client, hello.Generation, hello.Any, hello.Looks = c.worker, c.id, c.cfg.Generation, c.cfg.Any, c.cfg.Looks
	if c.resolver != nil && c.numbered { // one head has given the number; the others keep to it
		hello.Any = false
	}
	hello = hello.Says()
	if c.cfg.protocol != 0 {
		hello.Protocol, hello.Newest = c.cfg.protocol, 0
	}
	said, _ := json.Marshal(hello)
	dials, lanes := c.cfg.Host.Dial, len(c.lanesOf(s))
	if !hello.Chained { // a group's endpoints stand beside those of other groups
		dials = c.cfg.Host.DialTwins
	}
	conn, reply, err := dials(ctx, addr, said, lanes, func(i int, d rdma.Domain) (rdma.EndpointConfig, error) {
		q, err := c.mux.Queue(d)
		if err != nil {
			return rdma.EndpointConfig{}, err
		}
		if i >= lanes { // the server fetches by it, and answers pushes; nothing is sent from here
			return rdma.EndpointConfig{Queue: q, RecvDepth: psmsg.Slots, SharedRecv: true, Peer: c.home(s.index)}, nil
		}
		return rdma.EndpointConfig{Queue: q, SendDepth: 2 * requestWRs * psmsg.Slots, RecvDepth: psmsg.Slots, SharedRecv: true, Peer: c.home(s.index)}, nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("client: worker %d: connecting to %s: %w", c.worker, c.home(s.index), err)
	}
	var w psmsg.Welcome
	err = json.Unmarshal(reply, &w)
	if err == nil {
		var v int
		v, err = w.Spoken(hello)
		speaks = int32(v)
	}
	if err == nil && c.cfg.Any && !c.numbered {
		if w.Worker < 0 {
			err = fmt.Errorf("it gave no number (%q)", reply)
		} else {
			c.worker, c.numbered = w.Worker, true // in Open, before anybody else can look
		}
	}
	if err != nil {
		conn.Close()
		return nil, 0, fmt.Errorf("client: worker %d: %s: %w", c.worker, c.home(s.index), err)
	}
	return conn, speaks, nil
}

// Worker is the client's number among the workers.
func (c *Client) Worker() int { return c.worker }

// attach gives the server's lanes their endpoints; the result is what the server
// must know of them.
func (c *Client) attach(s *serverConn, conn *dial.Conn) (open psmsg.OpenRequest, err error) {
	for i, l := range c.lanesOf(s) {
		if err := l.attach(c, conn.Endpoints[i], conn.Domains[i]); err != nil {
			return open, err
		}
		if l.twin = conn.Twin(i); l.twin != nil {
			if err := l.listen(l.twin); err != nil {
				return open, err
			}
			open.Beside = true
		}
		r, err := l.buf.remote(l.domain, l.at+psmsg.Slots*l.slotBytes, psmsg.Slots*psmsg.ReplySlotBytes)
		if err != nil {
			return open, err
		}
		open.Replies = append(open.Replies, r)
		open.Next = append(open.Next, l.nextToSend())
	}
	return open, nil
}

// exchange tells the server its part of the rings and learns the client's. Like
// dial it touches nothing of the client's.
func (c *Client) exchange(ctx context.Context, s *serverConn, conn *dial.Conn, open psmsg.OpenRequest) (rep psmsg.OpenReply, err error) {
	if err := conn.Call(ctx, psmsg.MethodOpen, open, &rep); err != nil {
		return rep, fmt.Errorf("client: worker %d: opening %s: %w", c.worker, c.home(s.index), err)
	}
	if len(rep.Landing) != len(open.Replies) {
		return rep, fmt.Errorf("client: %s offers %d landing rings for %d lanes", c.home(s.index), len(rep.Landing), len(open.Replies))
	}
	for i, r := range rep.Landing {
		stride := r.Len / psmsg.Slots
		switch {
		case c.resolver == nil && stride != psmsg.SlotBytes, r.Len%psmsg.Slots != 0, stride < minStride, stride > psmsg.SlotBytes:
			return rep, fmt.Errorf("client: %s offers a landing ring of %d bytes at lane %d, want %d", c.home(s.index), r.Len, i, psmsg.Slots*c.slotBytes)
		}
	}
	return rep, nil
}

func (c *Client) opened(s *serverConn, rep psmsg.OpenReply) {
	for i, l := range c.lanesOf(s) {
		l.landing = rep.Landing[i]
		if i < len(rep.Standing) && l.seq == 0 {
			l.standing = rep.Standing[i]
		}
		if i < len(rep.Standing) {
			l.newest = rep.Standing[i]
			c.lookBack(l)
		}
		l.stride = int(l.landing.Len / psmsg.Slots)
		l.eager = min(max(rep.Eager, 0), l.stride-psmsg.RequestBytes)
	}
}

// minStride is the least that a slot of a landing ring holds.
const minStride = 4 << 10

// nextToSend is the sequence of the oldest push that is not answered, or else of
// the next one.
func (l *laneConn) nextToSend() uint64 {
	next := l.seq + 1
	for i := range l.parts {
		if p := &l.parts[i]; p.active && p.seq != 0 {
			next = min(next, p.seq)
		}
	}
	return next
}
