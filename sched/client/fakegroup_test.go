package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// cluster is servers of a job with replicas as a worker sees them. Behind them is
// one state for each group: what a chain promises is simply so here. What is tested
// is the worker.
type cluster struct {
	t         *testing.T
	token     []byte
	transport string
	// inside is where a server stands in a worker's memory, before it writes there; what it
	// gives is called when the server has left it. nil: nowhere.
	inside func(f *fake, group int) (left func())

	mu      sync.Mutex
	newest  *place.Chains
	changed chan struct{}
	servers map[place.Node]*fake
	groups  []*groupState
}

// groupState is one group's rows, of one float each.
type groupState struct {
	mu     sync.Mutex
	last   map[int]uint64 // by worker
	client map[int]uint64
	rows   map[uint64]float32
	left   map[int]int // how often
}

// fake is one server process.
type fake struct {
	cl   *cluster
	node place.Node
	host *dial.Host
	l    *dial.Listener
	ctx  context.Context
	kill context.CancelFunc
	all  sync.WaitGroup

	mu     sync.Mutex
	map_   *place.Chains  // that it has adopted; nil: the cluster's
	frozen chan struct{}  // closed when it goes on
	asked  map[string]int // of each method, frozen or not
	calls  map[string]int
	came   map[psmsg.Hello]int // by worker, group and whether ahead
}

var clusterToken = []byte("a token of this test alone")

func newCluster(t *testing.T, servers, groups int) *cluster {
	t.Helper()
	return newClusterOver(t, "tcp", servers, groups)
}

func newClusterOver(t *testing.T, transport string, servers, groups int) *cluster {
	t.Helper()
	cl := &cluster{t: t, token: clusterToken, transport: transport, changed: make(chan struct{}), servers: map[place.Node]*fake{}}
	for range groups {
		cl.groups = append(cl.groups, &groupState{last: map[int]uint64{}, client: map[int]uint64{}, rows: map[uint64]float32{}, left: map[int]int{}})
	}
	var list []place.Server
	for i := range servers {
		f := cl.start(place.Node{Server: i, Gen: 1})
		list = append(list, place.Server{ID: i, Weight: 1, Lanes: 4, Addr: f.l.Addr(), Gen: 1})
	}
	first, err := place.NewChains(place.ChainsConfig{Slots: 64, Groups: groups, Replicas: servers, AllowSameHost: true}, list)
	must(t, err)
	cl.publish(first, 1)
	t.Cleanup(func() {
		for _, f := range cl.servers {
			f.stop()
		}
	})
	return cl
}

// publish makes c the newest map.
func (cl *cluster) publish(c *place.Chains, revision uint64) {
	cl.t.Helper()
	b, err := json.Marshal(c)
	must(cl.t, err)
	next, err := place.Decode(b, revision)
	must(cl.t, err)
	cl.mu.Lock()
	cl.newest = next
	close(cl.changed)
	cl.changed = make(chan struct{})
	cl.mu.Unlock()
}

func (cl *cluster) now() (*place.Chains, <-chan struct{}) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.newest, cl.changed
}

// cut takes a server out of all chains.
func (cl *cluster) cut(node place.Node) {
	c, _ := cl.now()
	next, lost := c.Cut(func(s place.Server) bool { return s.ID == node.Server && s.Gen == node.Gen })
	if len(lost) > 0 {
		cl.t.Fatalf("groups %v have nobody left", lost)
	}
	cl.publish(next, c.Epoch+1)
}

// moveHead takes a group's head out of the group; it goes on with its others.
func (cl *cluster) moveHead(group int) {
	c, _ := cl.now()
	cl.publish(c.Without(group, c.Groups[group].Chain[0].Server), c.Epoch+1)
}

// aim says in the map who is to lead a group next: the member behind its head.
func (cl *cluster) aim(group int) {
	c, _ := cl.now()
	next := *c
	next.Aim = &place.Aim{}
	for g := range c.Groups {
		var ids []int
		for _, m := range c.Groups[g].Chain {
			ids = append(ids, m.Server)
		}
		if g == group && len(ids) > 1 {
			ids[0], ids[1] = ids[1], ids[0]
		}
		next.Aim.Groups = append(next.Aim.Groups, ids)
	}
	cl.publish(&next, c.Epoch+1)
}

func (cl *cluster) headOf(group int) *fake {
	c, _ := cl.now()
	n, _ := c.Head(group)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.servers[n]
}

func (cl *cluster) config(worker int) Config {
	h, err := dial.New(dial.Config{Transport: cl.transport, Token: cl.token})
	must(cl.t, err)
	cl.t.Cleanup(func() { h.Close() })
	c, _ := cl.now()
	return Config{Worker: worker, Chains: c, Host: h, Timeout: time.Minute, Node: -1}
}

func (cl *cluster) open(worker int) *Client {
	cl.t.Helper()
	c, err := Open(context.Background(), cl.config(worker))
	must(cl.t, err)
	cl.t.Cleanup(c.Close)
	return c
}

func (cl *cluster) start(node place.Node) *fake { return cl.startAt(node, "127.0.0.1:0") }

func (cl *cluster) startAt(node place.Node, addr string) *fake {
	h, err := dial.New(dial.Config{Transport: cl.transport, Token: cl.token, Listen: "127.0.0.1:0"})
	must(cl.t, err)
	f := &fake{cl: cl, node: node, host: h, frozen: make(chan struct{}), calls: map[string]int{}, asked: map[string]int{}, came: map[psmsg.Hello]int{}}
	close(f.frozen)
	f.l, err = h.Listen(addr)
	must(cl.t, err)
	f.ctx, f.kill = context.WithCancel(context.Background())
	cl.mu.Lock()
	cl.servers[node] = f
	cl.mu.Unlock()
	f.all.Go(func() {
		for {
			in, err := f.l.Accept(f.ctx)
			if err != nil {
				return
			}
			f.all.Go(func() { f.handle(in) })
		}
	})
	return f
}

// stop ends the process: all its connections break.
func (f *fake) stop() {
	f.thaw()
	f.kill()
	f.l.Close()
	f.host.Close()
	f.all.Wait()
}

// freeze is what SIGSTOP does: nothing is answered and nothing breaks.
func (f *fake) freeze() {
	f.mu.Lock()
	f.frozen = make(chan struct{})
	f.mu.Unlock()
}

func (f *fake) thaw() {
	f.mu.Lock()
	select {
	case <-f.frozen:
	default:
		close(f.frozen)
	}
	f.mu.Unlock()
}

// waitAsked returns when a call of the method has come, frozen or not.
func (f *fake) waitAsked(t *testing.T, method string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		n := f.asked[method]
		f.mu.Unlock()
		if n > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no %s has come", method)
		}
	}
}

// running returns when the process may go on.
func (f *fake) running() {
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	<-frozen
}

// lag has the server keep the map that it has.
func (f *fake) lag(c *place.Chains) {
	f.mu.Lock()
	f.map_ = c
	f.mu.Unlock()
}

func (f *fake) adopted() (*place.Chains, <-chan struct{}) {
	c, changed := f.cl.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.map_ != nil {
		return f.map_, make(chan struct{})
	}
	return c, changed
}

func (f *fake) handle(in *dial.Incoming) {
	f.running()
	var h psmsg.Hello
	if err := json.Unmarshal(in.Hello, &h); err != nil {
		_ = in.Reject(err)
		return
	}
	v, err := h.Spoken()
	if err != nil {
		_ = in.Reject(err)
		return
	}
	welcome, _ := json.Marshal(psmsg.Welcome{Server: f.node.Server, Lanes: 1, Worker: h.Worker, Protocol: v})
	if h.Worker == psmsg.Visitor {
		conn, err := in.Finish(func(int, rdma.Domain) rdma.EndpointConfig { return rdma.EndpointConfig{} }, welcome)
		if err == nil {
			_ = conn.Serve(f.ctx, f.visitor)
			conn.Close()
		}
		return
	}
	if !h.Chained || in.Count != 1 {
		_ = in.Reject(errors.New("a group must be asked for"))
		return
	}
	f.mu.Lock()
	f.came[psmsg.Hello{Worker: h.Worker, Group: h.Group, Ahead: h.Ahead}]++
	f.mu.Unlock()
	if !f.heads(h.Group) && !h.Ahead {
		c, _ := f.adopted()
		_ = in.Reject(fmt.Errorf("server %d: %w", f.node.Server, &psmsg.Moved{Group: h.Group, Epoch: c.Epoch, Server: f.node.Server}))
		return
	}
	s := &fakeSession{f: f, group: h.Group, worker: h.Worker, client: h.Client, mux: dial.NewMux(1024)}
	defer s.close()
	conn, err := in.Finish(func(_ int, d rdma.Domain) rdma.EndpointConfig {
		q, err := s.mux.Queue(d)
		if err != nil {
			return rdma.EndpointConfig{}
		}
		return rdma.EndpointConfig{Queue: q, SendDepth: 256, RecvDepth: psmsg.Slots, SharedRecv: true, Peer: "worker"}
	}, welcome)
	if err != nil {
		return
	}
	s.conn = conn
	defer conn.Close()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	f.all.Go(func() { // a head that is deposed ends its sessions
		for waits := h.Ahead; f.heads(s.group) || waits; {
			_, changed := f.adopted()
			waits = waits && !f.heads(s.group)
			select {
			case <-changed:
				f.running()
			case <-ctx.Done():
				return
			}
		}
		conn.Control.Close()
	})
	_ = conn.Serve(ctx, s.control)
	s.lane.Wait()
}

func (f *fake) heads(group int) bool {
	c, _ := f.adopted()
	n, _ := c.Head(group)
	return n == f.node
}

func (f *fake) visitor(ctx context.Context, method string, body json.RawMessage) (any, error) {
	f.running()
	if method != psmsg.MethodMap {
		return nil, fmt.Errorf("a visitor may not ask %q", method)
	}
	var r psmsg.MapRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	c, changed := f.adopted()
	if c.Epoch <= r.After {
		select {
		case <-changed:
		case <-time.After(time.Duration(r.WaitMicros) * time.Microsecond):
		case <-ctx.Done():
		}
		f.running()
		c, _ = f.adopted()
	}
	return psmsg.MapReply{Chains: c}, nil
}

// fakeSession is a worker at one group.
type fakeSession struct {
	f      *fake
	group  int
	worker int
	client uint64
	conn   *dial.Conn
	mux    *dial.Mux
	ring   *mem.Arena
	region rdma.Region
	to     rdma.RemoteRange
	lane   sync.WaitGroup
}

const fakeRing = psmsg.Slots * (psmsg.ChainedSlotBytes + psmsg.ReplySlotBytes)

func (s *fakeSession) close() {
	s.lane.Wait()
	s.mux.Close()
	if s.region != nil {
		s.region.Close()
	}
	if s.ring != nil {
		s.ring.Close()
	}
}

func (s *fakeSession) control(_ context.Context, method string, body json.RawMessage) (any, error) {
	s.f.mu.Lock()
	s.f.asked[method]++
	s.f.mu.Unlock()
	s.f.running()
	s.f.mu.Lock()
	s.f.calls[method]++
	s.f.mu.Unlock()
	g := s.f.cl.groups[s.group]
	var r psmsg.OpenRequest
	if err := json.Unmarshal(body, &r); err != nil && method == psmsg.MethodOpen {
		return nil, err
	}
	for end := time.After(time.Second); ; {
		c, changed := s.f.adopted()
		if r.Since <= c.Groups[s.group].Since {
			break
		}
		select {
		case <-changed:
		case <-time.After(5 * time.Millisecond): // who lags does not tell when it does no more
		case <-end:
			r.Since = 0
		}
	}
	if !s.f.heads(s.group) {
		c, _ := s.f.adopted()
		return nil, &psmsg.Moved{Group: s.group, Epoch: c.Epoch, Server: s.f.node.Server}
	}
	switch method {
	case psmsg.MethodOpen:
		return s.open(r)
	case psmsg.MethodLeave:
		g.mu.Lock()
		g.left[s.worker]++
		g.mu.Unlock()
		return struct{}{}, nil
	case psmsg.MethodStats, psmsg.MethodCut:
		return psmsg.StatsReply{Server: s.f.node.Server}, nil
	}
	return nil, fmt.Errorf("no method %q", method)
}

func (s *fakeSession) open(r psmsg.OpenRequest) (*psmsg.OpenReply, error) {
	var err error
	if s.ring, err = mem.New(mem.Config{Size: fakeRing, Node: -1, Purpose: "fake landing ring", Share: true}); err != nil {
		return nil, err
	}
	if s.region, err = s.conn.Domains[0].Register(s.ring, rdma.AccessRemoteWrite, "fake landing ring"); err != nil {
		return nil, err
	}
	s.to = r.Replies[0]
	if _, err := s.conn.Endpoints[0].PostRecv(make([]rdma.Recv, psmsg.Slots)); err != nil {
		return nil, err
	}
	g := s.f.cl.groups[s.group]
	g.mu.Lock()
	if s.client < g.client[s.worker] {
		g.mu.Unlock()
		return nil, errors.New("another process has the worker's number")
	}
	g.client[s.worker] = s.client
	last := g.last[s.worker]
	g.mu.Unlock()
	s.lane.Go(s.serve)
	return &psmsg.OpenReply{Landing: []rdma.RemoteRange{s.region.Remote().Slice(0, psmsg.Slots*psmsg.ChainedSlotBytes)},
		Eager: psmsg.ChainedSlotBytes - psmsg.RequestBytes, Standing: []psmsg.Standing{{Last: last}}}, nil
}

// serve answers requests until the connection ends.
func (s *fakeSession) serve() {
	ep := s.conn.Endpoints[0]
	var cs [16]rdma.Completion
	for {
		select {
		case <-s.conn.Done():
			return
		default:
		}
		_ = s.mux.Wait(time.Now().Add(5 * time.Millisecond))
		s.f.running()
		for _, c := range cs[:s.mux.Poll(cs[:])] {
			if c.Status != rdma.StatusOK {
				return
			}
			if c.Op != rdma.OpRecvImm {
				continue
			}
			if _, err := ep.PostRecv(make([]rdma.Recv, 1)); err != nil || !s.answer(int(c.Imm)) {
				return
			}
		}
	}
}

func (s *fakeSession) answer(slot int) bool {
	b := s.ring.Bytes()[slot*psmsg.ChainedSlotBytes:][:psmsg.ChainedSlotBytes]
	var r psmsg.Request
	if err := r.Decode(b); err != nil {
		s.f.cl.t.Errorf("a request to group %d: %v", s.group, err)
		return false
	}
	n := int(r.Rows)
	keys, grads, ok := s.payload(&r, b[psmsg.RequestBytes:])
	if !ok {
		return false
	}
	rep := psmsg.Reply{Slot: uint32(slot), Seq: r.Seq}
	out := s.staging(slot)[:n]
	if !s.apply(&r, &rep, keys, grads, out) {
		return false // it is not answered
	}
	ep := s.conn.Endpoints[0]
	if r.Kind == psmsg.KindPull && !s.write(out, r.Values) {
		return false
	}
	local := s.ring.Bytes()[psmsg.Slots*psmsg.ChainedSlotBytes+slot*psmsg.ReplySlotBytes:][:psmsg.ReplyBytes]
	rep.Encode(local)
	_, err := ep.Post([]rdma.WR{{Op: rdma.OpWriteImm, Imm: uint32(slot), Local: local, Remote: s.to.Slice(uint64(slot*psmsg.ReplySlotBytes), psmsg.ReplyBytes)}})
	return err == nil
}

// payload finds a request's keys and gradients: behind it, or in the worker's memory.
func (s *fakeSession) payload(r *psmsg.Request, b []byte) (keys []uint64, grads []float32, ok bool) {
	n := int(r.Rows)
	if n == 0 {
		return nil, nil, true
	}
	if !s.conn.Domains[0].Caps().Mapped {
		if r.Flags&psmsg.FlagInlineKeys == 0 {
			s.f.cl.t.Errorf("%d keys do not ride with their request", n)
			return nil, nil, false
		}
		return mem.Uint64s(b[:n*8]), mem.Float32s(b[n*8:][:n*4]), true
	}
	ep := s.conn.Endpoints[0]
	k, err := ep.Map(r.Keys.Slice(0, uint64(n*8)))
	if err != nil {
		return nil, nil, false
	}
	if r.Kind == psmsg.KindPush {
		g, err := ep.Map(r.Values.Slice(0, uint64(n*4)))
		return mem.Uint64s(k), mem.Float32s(g), err == nil
	}
	return mem.Uint64s(k), nil, true
}

// write puts a pull's values where the worker wants them.
func (s *fakeSession) write(out []float32, to rdma.RemoteRange) bool {
	ep := s.conn.Endpoints[0]
	if !s.conn.Domains[0].Caps().Mapped || len(out) == 0 {
		_, err := ep.Post([]rdma.WR{{Op: rdma.OpWrite, Local: mem.Bytes(out), Remote: to}})
		return err == nil
	}
	b, err := ep.Enter(to)
	if err != nil {
		return false
	}
	s.f.cl.mu.Lock()
	inside := s.f.cl.inside
	s.f.cl.mu.Unlock()
	if inside != nil {
		defer inside(s.f, s.group)()
	}
	defer ep.Leave()
	copy(b, mem.Bytes(out))
	return true
}

// apply does what a group does with a request: it fills out, or adds grads. False: not by
// this server.
func (s *fakeSession) apply(r *psmsg.Request, rep *psmsg.Reply, keys []uint64, grads, out []float32) bool {
	g := s.f.cl.groups[s.group]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.client[s.worker] != s.client || !s.f.heads(s.group) {
		return false
	}
	switch r.Kind {
	case psmsg.KindPush:
		switch last := g.last[s.worker]; {
		case r.Seq <= last:
			rep.Code = psmsg.CodeDuplicate
		case r.Seq > last+1:
			s.f.cl.t.Errorf("group %d has push %d of worker %d and gets %d", s.group, last, s.worker, r.Seq)
			return false
		default:
			for i, v := range grads {
				g.rows[keys[i]] += v
			}
			g.last[s.worker] = r.Seq
		}
	case psmsg.KindPull:
		for i, k := range keys {
			out[i] = g.rows[k]
		}
	}
	return true
}

// staging is where values are put before they are sent: the end of the request's
// slot, which is in use until it is answered.
func (s *fakeSession) staging(slot int) []float32 {
	b := s.ring.Bytes()[slot*psmsg.ChainedSlotBytes:][psmsg.ChainedSlotBytes/2 : psmsg.ChainedSlotBytes]
	return mem.Float32s(b)
}
