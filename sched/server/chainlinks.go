package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/sched/relay"
)

const (
	// maxPeers bounds a group's links at one member: to those before and after it, and
	// to who was there or will be.
	maxPeers = 6
	// linkWithin bounds the making of a link, linkPause is between two attempts.
	linkWithin = 5 * time.Second
	linkPause  = 50 * time.Millisecond
)

// links of a chained lane. The server before dials; what is needed changes with the
// chain, so whoever is not beside this one in the newest is hung up on.
type peers struct {
	all     map[uint32]*peer // by the number in their completions
	dialing map[chain.Node]bool
	retry   time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	dials   sync.WaitGroup
	after   unlinked // the member behind this one
}

type peer struct {
	node  chain.Node
	id    uint32
	link  *relay.Link
	conn  *dial.Conn
	epoch uint64 // adopted here when it came
	moved bool   // sent or received since the last flush
}

// newLink makes one end of a link, whose endpoint attach asks for.
func (c *chained) newLink(node chain.Node, dials bool, d rdma.Domain) (*peer, rdma.EndpointConfig, error) {
	p := &peer{node: node}
	if err := c.l.do(commandTimeout, func() { p.id, p.epoch = c.l.number(), c.m.Epoch() }); err != nil {
		return nil, rdma.EndpointConfig{}, err
	}
	link, err := relay.New(d, relay.Config{Group: c.cfg.Group, Self: c.cfg.Self, Peer: node, Dials: dials, ID: p.id, Node: c.l.cfg.Node, On: c.hear})
	if err != nil {
		return nil, rdma.EndpointConfig{}, err
	}
	q, err := c.l.mux.Queue(d)
	if err != nil {
		link.Close()
		return nil, rdma.EndpointConfig{}, err
	}
	p.link = link
	return p, link.Endpoint(q), nil
}

// hear takes a message off a link.
func (c *chained) hear(m *chain.Message) {
	if c.failed == nil {
		c.lease()
		c.step(m)
		c.heard = true
	}
}

// attach makes a link one of the lane's. An older one to the same member ends.
func (c *chained) attach(p *peer, conn *dial.Conn) error {
	for _, o := range c.peers.all {
		if o.node == p.node {
			c.hangUp(o)
		}
	}
	if len(c.peers.all) >= maxPeers {
		return fmt.Errorf("server: group %d has %d links already", c.cfg.Group, maxPeers)
	}
	p.conn = conn
	c.peers.all[p.id] = p
	return p.link.Attach(conn.Endpoints[0])
}

// hangUp ends a link.
func (c *chained) hangUp(p *peer) {
	p.link.Close()
	if c.peers.all[p.id] == p {
		delete(c.peers.all, p.id)
	}
	if p.conn != nil {
		go p.conn.Close() // tells the peer goodbye, which may take a while
	}
}

// completed takes a completion that is no session's.
func (c *chained) completed(done *rdma.Completion) {
	p := c.peers.all[uint32(done.ID>>32)]
	if p == nil {
		return
	}
	p.moved = true
	if err := p.link.Complete(done); err != nil {
		c.hangUp(p)
	}
}

// post sends what links have taken.
func (c *chained) post() {
	for _, p := range c.peers.all {
		if !p.moved {
			continue
		}
		p.moved = false
		if err := p.link.Flush(); err != nil {
			c.hangUp(p)
		}
	}
}

func (c *chained) peerOf(node chain.Node) *peer {
	for _, p := range c.peers.all {
		if p.node == node {
			return p
		}
	}
	return nil
}

// beside are the members before and after this one; the last has the joiner behind it.
func (c *chained) beside() (before, after chain.Node, hasBefore, hasAfter bool) {
	cfg := c.m.Config()
	at := slices.IndexFunc(cfg.Chain, func(m chain.Member) bool { return m.Node == c.cfg.Self })
	n := len(cfg.Chain)
	switch {
	case at < 0 && n > 0:
		return cfg.Chain[n-1].Node, after, true, false
	case at < 0:
		return
	case at > 0:
		before, hasBefore = cfg.Chain[at-1].Node, true
	}
	switch {
	case at < n-1:
		after, hasAfter = cfg.Chain[at+1].Node, true
	case cfg.Joiner != nil:
		after, hasAfter = cfg.Joiner.Node, true
	}
	return before, after, hasBefore, hasAfter
}

// leaveOthers hangs up on whoever is not beside this member in the chain that was
// adopted. One that came by a newer chain than that was here before it was adopted.
func (c *chained) leaveOthers() {
	before, after, hasBefore, hasAfter := c.beside()
	for _, p := range c.peers.all {
		if !(hasBefore && p.node == before || hasAfter && p.node == after) {
			c.hangUp(p)
		}
	}
}

// reach dials the member behind this one where there is no link to it.
func (c *chained) reach(now time.Time) {
	_, after, _, has := c.beside()
	if !has || c.cfg.Send != nil || now.Before(c.peers.retry) || c.peers.dialing[after] || c.peerOf(after) != nil || c.peers.ctx.Err() != nil {
		return
	}
	c.peers.retry = now.Add(linkPause)
	addr, ok := c.cfg.Dial(after)
	if !ok {
		return
	}
	c.peers.dialing[after] = true
	c.peers.dials.Go(func() { c.dial(after, addr) })
}

// dial makes a link and stays with it until it ends.
func (c *chained) dial(node chain.Node, addr string) {
	p, conn, err := c.connect(node, addr)
	_ = c.l.do(commandTimeout, func() {
		delete(c.peers.dialing, node)
		now := time.Now()
		c.peers.retry = now.Add(linkPause)
		c.peers.after.tried(node, p != nil, conn != nil, err, now)
	})
	if err == nil {
		select {
		case <-conn.Done():
		case <-c.peers.ctx.Done():
		}
	}
	c.end(p)
	if conn != nil {
		conn.Close()
	}
}

// end has the lane hang up, from any goroutine; p may be nil.
func (c *chained) end(p *peer) {
	if p != nil {
		c.l.doOrElse(commandTimeout, func() { c.hangUp(p) }, p.link.Close)
	}
}

// doOrElse has the lane do f, however long it is busy: it may be using what f frees, so
// only when it has ended the caller does gone instead. f may be done more than once.
func (l *lane) doOrElse(deadline time.Duration, f, gone func()) {
	for l.do(deadline, f) != nil {
		select {
		case <-l.gone:
			gone()
			return
		default:
		}
	}
}

func (c *chained) connect(node chain.Node, addr string) (p *peer, conn *dial.Conn, err error) {
	ctx, cancel := context.WithTimeout(c.peers.ctx, linkWithin)
	defer cancel()
	link := psmsg.Hello{Group: c.cfg.Group, Link: &psmsg.Link{Group: c.cfg.Group, From: c.cfg.Self, To: node}}.Says()
	link.Newest = c.own()
	hello, _ := json.Marshal(link)
	conn, _, err = c.l.cfg.Host.Dial(ctx, addr, hello, 1, func(_ int, d rdma.Domain) (cfg rdma.EndpointConfig, err error) {
		c.end(p) // the transport before does not work
		p, cfg, err = c.newLink(node, true, d)
		return cfg, err
	})
	if err != nil {
		return p, nil, err
	}
	attached := errors.New("server: the lane has ended")
	var mine, offer relay.Offer
	if e := c.l.do(commandTimeout, func() {
		if attached = c.attach(p, conn); attached == nil {
			mine = p.link.Offer()
		}
	}); e != nil || attached != nil {
		return p, conn, errors.Join(e, attached)
	}
	if err = conn.Call(ctx, relay.Method, mine, &offer); err != nil {
		return p, conn, err
	}
	if e := c.l.do(commandTimeout, func() { err = c.ready(p, offer) }); e != nil {
		err = e
	}
	return p, conn, err
}

// ready begins to send. What the machine wanted to say before is said again.
func (c *chained) ready(p *peer, offer relay.Offer) error {
	if c.peers.all[p.id] != p {
		return rdma.ErrClosed
	}
	err := p.link.Ready(offer)
	p.moved = true
	return err
}

// handleLink serves another member's connection, to its end.
func (s *Server) handleLink(ctx context.Context, in *dial.Incoming, hello psmsg.Hello) {
	c := s.lanes[0].chain
	if k := hello.Link; k.Group != c.cfg.Group || k.To != c.cfg.Self || in.Count != 1 {
		in.Reject(fmt.Errorf("server %d (generation %x), group %d: the link is for server %d (generation %x), group %d", c.cfg.Self.Server, c.cfg.Self.Gen, c.cfg.Group, k.To.Server, k.To.Gen, k.Group))
		return
	}
	var p *peer
	conn, err := in.Finish(func(_ int, d rdma.Domain) (cfg rdma.EndpointConfig) {
		c.end(p)
		p, cfg, _ = c.newLink(hello.Link.From, false, d) // without one there is nothing to serve
		return cfg
	}, []byte("{}"))
	if err == nil && p != nil {
		_ = conn.Serve(ctx, func(_ context.Context, method string, body json.RawMessage) (any, error) {
			if method != relay.Method {
				return nil, fmt.Errorf("server: a link has no method %q", method)
			}
			return decoded(body, func(offer relay.Offer) (any, error) { return c.accept(p, conn, offer) })
		})
	}
	c.end(p)
	if conn != nil {
		conn.Close()
	}
}

// accept is the answer to who has dialled.
func (c *chained) accept(p *peer, conn *dial.Conn, offer relay.Offer) (mine relay.Offer, err error) {
	e := c.l.do(commandTimeout, func() {
		if err = c.attach(p, conn); err == nil {
			mine = p.link.Offer()
			err = c.ready(p, offer)
		}
	})
	return mine, errors.Join(e, err)
}
