package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/chain"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

// chainWorld is a job's servers in this process, without those who decide: the test
// says who is in which chain, and all that live learn of it.
type chainWorld struct {
	t        *testing.T
	cfg      chainWorldConfig
	m        *place.Map // of groups
	merges   []tree.Merge
	token    []byte
	adopting sync.Mutex
	mu       sync.Mutex
	nodes    []*chainNode // that live
	epoch    uint64
	groups   []chain.Config
	nextGen  uint64
	caught   atomic.Uint64 // reports
}

type chainWorldConfig struct {
	transport       string
	groups, workers int
	staleness       int
	tables          []table.Spec
	dense           int
	options         chain.Options
	change          func(*Config) // of each server
	plain           bool          // servers without replicas
	rows            int           // of a group, 0: 30
	doors           bool          // servers reach each other's data through their chainNode.door
}

// chainNode is one server process.
type chainNode struct {
	w       *chainWorld
	node    chain.Node
	host    *dial.Host
	listen  *dial.Listener
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	servers []*Server
	frozen  []chan struct{}
	door    door
}

func newChainWorld(t *testing.T, cfg chainWorldConfig, nodes int, chains ...[]int) *chainWorld {
	t.Helper()
	w := &chainWorld{t: t, cfg: cfg, token: []byte("a token of this test alone"), epoch: 1}
	var list []place.Server
	for g := range cfg.groups {
		list = append(list, place.Server{ID: g, Weight: 1, Lanes: 1})
	}
	var err error
	w.m, err = place.New(1, place.DefaultSlots, list)
	must(t, err)
	_, leaves := tree.Leaves(1 << 14)
	shares, err := tree.Shares(leaves, cfg.workers)
	must(t, err)
	w.merges, err = tree.Top(shares)
	must(t, err)
	for range nodes {
		w.start()
	}
	for _, c := range chains {
		g := chain.Config{Epoch: 1, Began: 1}
		for _, n := range c {
			g.Chain = append(g.Chain, chain.Member{Node: w.nodes[n].node, Joined: 1})
		}
		w.groups = append(w.groups, g)
	}
	w.adopt()
	t.Cleanup(func() {
		for len(w.nodes) > 0 {
			w.kill(w.nodes[0])
		}
	})
	return w
}

// start begins a process, which is in no chain.
func (w *chainWorld) start() *chainNode {
	w.t.Helper()
	w.nextGen++
	n := &chainNode{w: w, node: chain.Node{Server: int(w.nextGen), Gen: w.nextGen}, frozen: make([]chan struct{}, w.cfg.groups)}
	var err error
	host := dial.Config{Transport: w.cfg.transport, Token: w.token, Listen: "127.0.0.1:0"}
	if w.cfg.doors {
		host.Transports = n.door.transports()
	}
	n.host, err = dial.New(host)
	must(w.t, err)
	n.listen, err = n.host.Listen("127.0.0.1:0")
	must(w.t, err)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	for g := range w.cfg.groups {
		n.servers = append(n.servers, n.open(g))
	}
	for _, s := range n.servers {
		n.running.Go(func() {
			if err := s.Serve(n.ctx); err != nil {
				w.t.Errorf("Serve: %v", err)
			}
		})
	}
	n.running.Go(n.accept)
	w.mu.Lock()
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
	return n
}

// config is of the server of a group, replicated or not.
func (w *chainWorld) config(group int, h *dial.Host) Config {
	sgd := table.Optimizer{Kind: table.SGD, LR: 1}
	c := Config{ID: group, Map: w.m, Host: h, Workers: w.cfg.workers, Staleness: w.cfg.staleness, Merges: w.merges, Seed: 1,
		Tables: w.cfg.tables, Node: -1, ReconnectFor: time.Minute, Tracked: true}
	if w.cfg.dense > 0 {
		c.Dense = DenseConfig{Ranges: []densemap.Range{{Len: w.cfg.dense, Rule: "grad"}}, Optimizer: sgd, Init: make([]float32, w.cfg.dense)}
	}
	if w.cfg.change != nil {
		w.cfg.change(&c)
	}
	if c.Storage != nil {
		st := *c.Storage
		st.Dirs = []string{w.t.TempDir()}
		c.Storage = &st
	}
	return c
}

func (n *chainNode) open(group int) *Server {
	w := n.w
	c := w.config(group, n.host)
	if w.cfg.plain {
		c.Listen = "127.0.0.1:0"
		s, err := New(c)
		must(w.t, err)
		return s
	}
	c.Chain = &ChainConfig{Self: n.node, Group: group, Options: w.cfg.options, Dial: w.addr, OnReport: func(r chain.Report) { w.report(n, group, r) }}
	s, err := New(c)
	must(w.t, err)
	return s
}

func (w *chainWorld) addr(to chain.Node) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.node == to {
			return n.listen.Addr(), true
		}
	}
	return "", false
}

func (n *chainNode) accept() {
	for {
		in, err := n.listen.Accept(n.ctx)
		if err != nil {
			return
		}
		var hello psmsg.Hello
		if err := json.Unmarshal(in.Hello, &hello); err != nil {
			in.Reject(err)
			continue
		}
		n.running.Go(func() { n.servers[hello.Group].Handle(n.ctx, in) })
	}
}

// kill ends a process; those that go on find out by what breaks.
func (w *chainWorld) kill(n *chainNode) {
	for g := range n.frozen {
		n.thaw(g)
	}
	n.cancel()
	n.listen.Close()
	n.running.Wait()
	n.host.Close()
	w.mu.Lock()
	w.nodes = slices.DeleteFunc(w.nodes, func(o *chainNode) bool { return o == n })
	w.mu.Unlock()
}

// freeze stops a replica, as a signal would stop its process.
func (n *chainNode) freeze(group int) {
	c := make(chan struct{})
	n.frozen[group] = c
	in := make(chan struct{})
	go n.servers[group].lanes[0].do(time.Hour, func() { close(in); <-c })
	<-in
}

func (n *chainNode) thaw(group int) {
	if n.frozen[group] != nil {
		close(n.frozen[group])
		n.frozen[group] = nil
	}
}

// report is what those who decide would hear.
func (w *chainWorld) report(n *chainNode, group int, r chain.Report) {
	switch r.Kind {
	case chain.Fence: // who is cut out was killed, or its lease taken away
		go n.servers[group].Fenced(r.Epoch)
	case chain.Caught:
		go w.caughtUp(group, r)
	case chain.LostState:
		w.t.Logf("server %d, group %d: its copy is lost: %s", n.node.Server, group, n.servers[group].ChainStats().Failed)
	}
}

// adopt has all that live take the chains as they are now.
func (w *chainWorld) adopt() {
	if w.cfg.plain {
		return
	}
	w.adopting.Lock()
	defer w.adopting.Unlock()
	w.mu.Lock()
	groups, nodes := slices.Clone(w.groups), slices.Clone(w.nodes)
	w.mu.Unlock()
	until := time.Now().Add(time.Hour)
	for _, n := range nodes {
		for g, c := range groups {
			if n.frozen[g] == nil {
				if err := n.servers[g].Adopt(c); err != nil && n.ctx.Err() == nil {
					w.t.Error(err)
				}
			}
		}
	}
	for _, n := range nodes {
		for g, c := range groups {
			if n.frozen[g] == nil {
				n.servers[g].Lease(c.Epoch, until)
			}
		}
	}
}

// change makes a new epoch of a group.
func (w *chainWorld) change(group int, f func(c *chain.Config)) {
	w.mu.Lock()
	w.epoch++
	c := w.groups[group]
	c.Chain = slices.Clone(c.Chain)
	c.Epoch = w.epoch
	f(&c)
	w.groups[group] = c
	w.mu.Unlock()
	w.adopt()
}

// cut takes a node out of all chains that have others.
func (w *chainWorld) cut(n *chainNode) {
	for g := range w.groups {
		w.mu.Lock()
		c := w.groups[g]
		w.mu.Unlock()
		if slices.ContainsFunc(c.Chain, func(m chain.Member) bool { return m.Node == n.node }) || c.Joiner != nil && c.Joiner.Node == n.node {
			n.servers[g].Lease(0, time.Time{})
			w.change(g, func(c *chain.Config) {
				c.Chain = slices.DeleteFunc(c.Chain, func(m chain.Member) bool { return m.Node == n.node })
				if c.Joiner != nil && c.Joiner.Node == n.node {
					c.Joiner = nil
				}
			})
		}
	}
}

// join has a node catch up with a group, and become its tail.
func (w *chainWorld) join(n *chainNode, group int) {
	w.change(group, func(c *chain.Config) { c.Joiner = &chain.Member{Node: n.node, Joined: c.Epoch} })
}

func (w *chainWorld) caughtUp(group int, r chain.Report) {
	w.mu.Lock()
	c := w.groups[group]
	current := c.Epoch == r.Epoch && c.Joiner != nil && c.Joiner.Node == r.Nodes[0]
	w.mu.Unlock()
	if !current {
		return
	}
	w.change(group, func(c *chain.Config) {
		if c.Joiner != nil && c.Joiner.Node == r.Nodes[0] {
			c.Chain, c.Joiner = append(c.Chain, *c.Joiner), nil
			w.caught.Add(1)
		}
	})
}

func (w *chainWorld) head(group int) (addr string, epoch uint64) {
	if w.cfg.plain {
		return w.nodes[0].servers[group].Addr(), 0
	}
	w.mu.Lock()
	node := w.groups[group].Chain[0].Node
	epoch = w.groups[group].Epoch
	w.mu.Unlock()
	addr, _ = w.addr(node)
	return addr, epoch
}

// members are the replicas of a group, head first.
func (w *chainWorld) members(group int) (out []*Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.groups[group].Chain {
		for _, n := range w.nodes {
			if n.node == m.Node {
				out = append(out, n.servers[group])
			}
		}
	}
	return out
}

// until waits for something that must come about.
func (w *chainWorld) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("it does not come about: %s\n%s", what, w.describe())
		}
	}
}

func (w *chainWorld) describe() (text string) {
	if w.cfg.plain {
		return "servers without replicas"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for g, c := range w.groups {
		text += fmt.Sprintf("group %d: %v joiner %v\n", g, c.Chain, c.Joiner)
		for _, n := range w.nodes {
			c := n.servers[g].lanes[0].chain
			text += fmt.Sprintf("  server %d: %+v", n.node.Server, n.servers[g].ChainStats())
			_ = c.l.do(time.Second, func() {
				text += fmt.Sprintf(" %+v parked %d", c.m, len(c.l.parked))
				for _, p := range c.peers.all {
					text += fmt.Sprintf(" link to %d: pending %d %v %+v", p.node.Server, p.link.Pending(), p.link.Err(), p.link.Stats())
				}
			})
			text += "\n"
		}
	}
	return text
}

// alike checks that all replicas of all groups have the same rows and dense values, and
// retain the same, and gives the sum of the first two.
func (w *chainWorld) alike() (sum table.Digest) {
	w.t.Helper()
	if w.cfg.plain {
		for _, s := range w.nodes[0].servers {
			d, err := s.Digest()
			must(w.t, err)
			sum.Add(d)
		}
		return sum
	}
	for g := range w.groups {
		var first table.Digest
		var past []byte
		w.until("all replicas have committed the same", func() bool {
			var at []uint64
			for _, s := range w.members(g) {
				must(w.t, s.lanes[0].do(time.Minute, func() { at = append(at, s.lanes[0].chain.m.Committed()) }))
			}
			return slices.Min(at) == slices.Max(at)
		})
		for i, s := range w.members(g) {
			d, err := s.Digest()
			must(w.t, err)
			var was []byte
			must(w.t, s.lanes[0].do(time.Minute, func() { was = s.lanes[0].chain.Past() }))
			if i > 0 && !bytes.Equal(was, past) {
				w.t.Errorf("group %d: replica %d retains %d bytes of the newest step, and not the %d of the head", g, i, len(was), len(past))
			}
			if past = was; i == 0 {
				first = d
				sum.Add(d)
			} else if d != first {
				w.t.Errorf("group %d: replica %d differs from the head: %s, not %s", g, i, d, first)
			}
		}
	}
	return sum
}
