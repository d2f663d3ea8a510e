package replica

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/chain"
	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/member"
	"psrt/sched/place"
)

var testToken = []byte("the token of all tests, long enough")

// patience is for a machine ten times slower than this one.
const patience = 2 * time.Minute

// cluster is server processes in one process, over loopback.
type cluster struct {
	t     *testing.T
	store *local.Store
	hub   *hub
	times member.Times
	first place.ChainsConfig
	start int // servers of the first map
	ttl   time.Duration
	// openAt makes a group's server; nil: a fake group.
	openAt func(*dial.Host, Seat) (Group, error)
	procs  map[int]*proc
}

// proc is one server process.
type proc struct {
	m     *Member
	host  *dial.Host
	store *mortal
	gate  sync.RWMutex
	thaw  func() // of a process that is stopped
	stop  context.CancelFunc
	ended chan error
}

// mortal is a store that a process reaches while it lives, and while nobody has cut
// the way.
type mortal struct {
	coord.Coordinator
	gone atomic.Bool
	deaf atomic.Bool // watches bring nothing
}

// Watch drops events while the process is deaf.
func (m *mortal) Watch(ctx context.Context, prefix string, from int64) (coord.Watcher, error) {
	w, err := m.Coordinator.Watch(ctx, prefix, from)
	if err != nil {
		return nil, err
	}
	out := make(chan coord.Event)
	go func() {
		defer close(out)
		for e := range w.Events() {
			if !m.deaf.Load() {
				select {
				case out <- e:
				case <-ctx.Done():
				}
			}
		}
	}()
	return deafWatcher{w, out}, nil
}

type deafWatcher struct {
	coord.Watcher
	events chan coord.Event
}

func (w deafWatcher) Events() <-chan coord.Event { return w.events }

func (m *mortal) err() error {
	if m.gone.Load() {
		return fmt.Errorf("%w: cut", coord.ErrUnavailable)
	}
	return nil
}

func (m *mortal) Get(ctx context.Context, key string) (coord.KV, error) {
	if err := m.err(); err != nil {
		return coord.KV{}, err
	}
	return m.Coordinator.Get(ctx, key)
}

func (m *mortal) List(ctx context.Context, prefix string) ([]coord.KV, int64, error) {
	if err := m.err(); err != nil {
		return nil, 0, err
	}
	return m.Coordinator.List(ctx, prefix)
}

func (m *mortal) CompareAndPut(ctx context.Context, key string, value []byte, revision int64, lease coord.LeaseID) (int64, error) {
	if err := m.err(); err != nil {
		return 0, err
	}
	return m.Coordinator.CompareAndPut(ctx, key, value, revision, lease)
}

func (m *mortal) KeepAlive(ctx context.Context, lease coord.LeaseID) error {
	if err := m.err(); err != nil {
		return err
	}
	return m.Coordinator.KeepAlive(ctx, lease)
}

func (m *mortal) Revoke(ctx context.Context, lease coord.LeaseID) error {
	if err := m.err(); err != nil {
		return err
	}
	return m.Coordinator.Revoke(ctx, lease)
}

func newCluster(t *testing.T, servers, replicas int) *cluster {
	c := &cluster{t: t, store: local.New(), hub: newHub(), procs: map[int]*proc{}, start: servers,
		// Death shows by connections that end; silence alone is not trusted on a machine
		// that may be slow.
		times: member.Times{Suspect: time.Second, Silent: time.Minute, Rejoin: 50 * time.Millisecond},
		first: place.ChainsConfig{Slots: 64, Groups: 6, Replicas: replicas, AllowSameHost: true}}
	t.Cleanup(func() {
		c.thaw()
		for _, p := range c.procs {
			p.stop()
		}
		for id, p := range c.procs {
			if err := <-p.ended; err != nil {
				t.Errorf("server %d: %v", id, err)
			}
			p.host.Close()
		}
		c.store.Close()
	})
	return c
}

// begin starts server id.
func (c *cluster) begin(id int) *proc {
	c.t.Helper()
	host, err := dial.New(dial.Config{Transport: "tcp", Token: testToken})
	if err != nil {
		c.t.Fatal(err)
	}
	p := &proc{host: host, store: &mortal{Coordinator: c.store}, ended: make(chan error, 1)}
	open := func(s Seat) (Group, error) { return newFakeGroup(c.hub, s, &p.gate), nil }
	if c.openAt != nil {
		open = func(s Seat) (Group, error) { return c.openAt(host, s) }
	}
	p.m, err = New(Config{ID: id, Host: host, Listen: "127.0.0.1:0", Coord: p.store, First: c.first, FirstServers: c.start, Times: c.times, LeaseTTL: c.ttl, Open: open,
		Note: func(note string) { c.t.Logf("server %d: %s", id, note) }})
	if err != nil {
		c.t.Fatal(err)
	}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	go func() { p.ended <- p.m.Run(ctx) }()
	c.procs[id] = p
	return p
}

// kill ends a process as a kill -9 does: it says nothing any more, to anybody.
func (c *cluster) kill(id int) {
	c.t.Helper()
	p := c.procs[id]
	delete(c.procs, id)
	p.store.gone.Store(true)
	if n, ok := p.m.Node(); ok {
		c.hub.kill(n)
	}
	p.host.Close()
	p.stop()
	<-p.ended // whatever it says: it is dead
}

// gone is a process that has left by itself.
func (c *cluster) gone(id int) {
	c.t.Helper()
	p := c.procs[id]
	if err := <-p.ended; err != nil {
		c.t.Error(err)
	}
	delete(c.procs, id)
	p.host.Close()
}

// freeze stops a process; the result lets it go on.
func (c *cluster) freeze(id int) (thaw func()) {
	p := c.procs[id]
	p.gate.Lock()
	p.m.mu.Lock()
	p.thaw = sync.OnceFunc(func() {
		p.m.mu.Unlock()
		p.gate.Unlock()
	})
	return p.thaw
}

// thaw lets all go on.
func (c *cluster) thaw() {
	for _, p := range c.procs {
		if p.thaw != nil {
			p.thaw()
		}
	}
}

// until waits for something to be so.
func (c *cluster) until(what string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			c.thaw()
			for id, p := range c.procs {
				c.t.Logf("server %d: %+v", id, p.m.State())
			}
			c.t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// chains is the newest map of the store; nil before the first.
func (c *cluster) chains() *place.Chains {
	kv, err := c.store.Get(context.Background(), KeyMap)
	if err != nil {
		return nil
	}
	m, err := place.Decode(kv.Value, uint64(kv.Revision))
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// whole says whether exactly these servers have all groups, with all replicas and
// nobody on the way in, and have all adopted that.
func (c *cluster) whole(servers ...int) bool {
	m := c.chains()
	if m == nil || len(m.Servers) != len(servers) {
		return false
	}
	for _, id := range servers {
		p := c.procs[id]
		n, ok := p.m.Node()
		if i := m.Index(id); !ok || i < 0 || m.Servers[i].Gen != n.Gen || p.m.State().Epoch != m.Epoch {
			return false
		}
	}
	for i := range m.Groups {
		if len(m.Groups[i].Chain) != min(m.Replicas, len(servers)) || m.Groups[i].Joiner != nil {
			return false
		}
	}
	return true
}

func (c *cluster) untilWhole(servers ...int) {
	c.t.Helper()
	c.until(fmt.Sprintf("servers %v have all groups", servers), func() bool { return c.whole(servers...) })
}

// worker pushes 1, 2, 3, ... to every group, each once.
type worker struct {
	c      *cluster
	number uint32
	pushed atomic.Uint64 // rounds acknowledged by all groups
	quit   atomic.Bool
	done   chan struct{}
}

func (c *cluster) work(number uint32) *worker {
	w := &worker{c: c, number: number, done: make(chan struct{})}
	go w.run()
	return w
}

func (w *worker) run() {
	defer close(w.done)
	for p := uint64(0); !w.quit.Load(); p++ {
		for g := range w.c.first.Groups {
			h := chain.Header{Kind: chain.Push, Worker: w.number, Client: 1, Push: p}
			if p == 0 {
				h.Kind = chain.Enter
			}
			for !w.c.hub.order(w.c.chains(), g, h, p) {
				time.Sleep(time.Millisecond)
			}
		}
		w.pushed.Store(p)
	}
}

// order has an op ordered by the group's head, and says whether that is committed.
func (h *hub) order(c *place.Chains, group int, op chain.Header, amount uint64) bool {
	if c == nil {
		return false
	}
	g := h.get(c.Node(c.Groups[group].Chain[0].Server), group)
	return g != nil && g.push(c.Groups[group].Since, op, amount) == chain.Duplicate
}

// more waits for so many rounds more.
func (w *worker) more(n uint64) {
	w.c.t.Helper()
	from := w.pushed.Load()
	w.c.until(fmt.Sprintf("%d more rounds of pushes", n), func() bool { return w.pushed.Load() >= from+n })
}

// end ends the worker, and proves that every group has each of its pushes once.
func (w *worker) end() {
	w.c.t.Helper()
	w.quit.Store(true)
	w.c.until("the worker ends", func() bool {
		select {
		case <-w.done:
			return true
		default:
			return false
		}
	})
	n := w.pushed.Load()
	for group := range w.c.first.Groups {
		w.c.until(fmt.Sprintf("group %d may be read", group), func() bool {
			m := w.c.chains()
			chain := m.Groups[group].Chain
			g := w.c.hub.get(m.Node(chain[len(chain)-1].Server), group) // the tail
			if g == nil {
				return false
			}
			sum, ops, ok := g.read(m.Groups[group].Since)
			if ok && (sum != n*(n+1)/2 || ops != n) {
				w.c.t.Fatalf("group %d: %d pushes with sum %d, want %d with %d", group, ops, sum, n, n*(n+1)/2)
			}
			return ok
		})
	}
}
