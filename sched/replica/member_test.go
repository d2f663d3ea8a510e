package replica

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/chain"
	"psrt/sched/coord"
	"psrt/sched/member"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// three is a job of three servers with two replicas.
func three(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, 3, 2)
	for id := range 3 {
		c.begin(id)
	}
	c.untilWhole(0, 1, 2)
	return c
}

// A server that dies is cut out, its groups go on with every push counted once, and
// when it is started again it gets its share back.
func TestKillAndRejoin(t *testing.T) {
	c := three(t)
	w := c.work(0)
	w.more(3)
	c.kill(1)
	c.until("server 1 is out", func() bool { return c.chains().Index(1) < 0 })
	w.more(3)
	c.begin(1)
	c.untilWhole(0, 1, 2)
	w.more(3)
	w.end()
}

// So does one that stops: it is suspected for its silence, and comes back by itself
// when it goes on.
func TestStopAndGoOn(t *testing.T) {
	c := newCluster(t, 3, 2)
	c.times.Silent = time.Second
	for id := range 3 {
		c.begin(id)
	}
	c.untilWhole(0, 1, 2)
	w := c.work(0)
	w.more(3)
	thaw := c.freeze(2)
	c.until("server 2 is out", func() bool { return c.chains().Index(2) < 0 })
	w.more(3)
	thaw()
	c.untilWhole(0, 1, 2)
	w.more(3)
	w.end()
}

// A server that is added gets its share, and one that is asked to go leaves nothing
// behind: its process ends by itself, and no group had fewer replicas for that.
func TestAddAndLeave(t *testing.T) {
	c := three(t)
	w := c.work(0)
	c.begin(3)
	c.untilWhole(0, 1, 2, 3)
	w.more(3)
	p := c.procs[0]
	watch, err := c.store.Watch(context.Background(), KeyMap, int64(c.chains().Epoch)+1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.m.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	c.gone(0)
	c.untilWhole(1, 2, 3)
	w.more(3)
	w.end()
	if _, err := c.store.Get(context.Background(), LeavingKey(0)); !errors.Is(err, coord.ErrNotFound) {
		t.Errorf("the wish to leave stays: %v", err)
	}
	watch.Close()
	for e := range watch.Events() {
		m, err := place.Decode(e.Value, uint64(e.Revision))
		if err != nil {
			t.Fatal(err)
		}
		for g := range m.Groups {
			if len(m.Groups[g].Chain) < 2 {
				t.Fatalf("epoch %d: group %d has %d replicas", m.Epoch, g, len(m.Groups[g].Chain))
			}
		}
	}
}

// While the store is away training goes on, longer than registrations last; when it
// is back, nobody is cut out for having been away from it, and changes are made.
func TestStoreAway(t *testing.T) {
	c := newCluster(t, 3, 2)
	c.ttl = coord.MinTTL
	for id := range 3 {
		c.begin(id)
	}
	c.untilWhole(0, 1, 2)
	w := c.work(0)
	epoch := c.chains().Epoch
	for _, p := range c.procs {
		p.store.gone.Store(true)
	}
	c.until("registrations end", func() bool {
		kvs, _, err := c.store.List(t.Context(), serverPrefix)
		return err == nil && len(kvs) == 0
	})
	w.more(5)
	for _, p := range c.procs {
		p.store.gone.Store(false)
	}
	c.until("all are registered again", func() bool {
		kvs, _, err := c.store.List(t.Context(), serverPrefix)
		return err == nil && len(kvs) == 3
	})
	if now := c.chains().Epoch; now != epoch {
		t.Errorf("the map is of epoch %d, it was of %d", now, epoch)
	}
	c.kill(2)
	c.until("server 2 is out", func() bool { return c.chains().Index(2) < 0 })
	w.more(3)
	w.end()
}

// One that cannot reach the store learns newer maps from the other servers.
func TestMapFromPeers(t *testing.T) {
	c := three(t)
	w := c.work(0)
	cut := c.procs[0]
	cut.store.gone.Store(true)
	cut.store.deaf.Store(true)
	c.kill(1)
	c.until("server 1 is out", func() bool { return c.chains().Index(1) < 0 })
	c.until("server 0 knows it", func() bool { return cut.m.State().Epoch >= c.chains().Epoch })
	w.more(3)
	w.end()
}

// A second process with a server's number is the server from then on, and the first
// one ends.
func TestSuperseded(t *testing.T) {
	c := three(t)
	old := c.procs[1]
	c.begin(1)
	c.until("the first one ends", func() bool {
		select {
		case err := <-old.ended:
			if !errors.Is(err, ErrSuperseded) {
				t.Fatalf("the first one ends with %v", err)
			}
			return true
		default:
			return false
		}
	})
	old.host.Close()
	c.untilWhole(0, 1, 2)
}

// The weight is a server's share.
func TestWeight(t *testing.T) {
	c := three(t)
	if err := c.procs[0].m.SetWeight(0); err == nil {
		t.Error("a weight of 0 is taken")
	}
	if err := c.procs[0].m.SetWeight(0.25); err != nil {
		t.Fatal(err)
	}
	c.until("server 0 has less", func() bool {
		n := 0
		m := c.chains()
		for g := range m.Groups {
			if m.Groups[g].Has(0) {
				n++
			}
		}
		return n <= 2 && c.whole(0, 1, 2)
	})
}

// A job whose replicas would have to share a host does not begin.
func TestFirstMapRefused(t *testing.T) {
	c := newCluster(t, 2, 2)
	c.first.AllowSameHost = false
	p := c.begin(0)
	c.begin(1)
	var bad interface{ BadInput() bool }
	if err := <-p.ended; err == nil || !errors.As(err, &bad) || !bad.BadInput() {
		t.Errorf("two replicas on one host: %v, want a complaint about the input", err)
	}
	p.host.Close()
	delete(c.procs, 0)
}

// visitor is a connection to server id that asks.
func (c *cluster) visitor(id int) *dial.Conn {
	c.t.Helper()
	hello, err := json.Marshal(psmsg.Hello{Worker: psmsg.Visitor}.Says())
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := c.dial(id, hello, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

func (c *cluster) dial(id int, hello []byte, count int) (*dial.Conn, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	host, err := dial.New(dial.Config{Transport: "tcp", Token: testToken})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { host.Close() })
	mux := dial.NewMux(64)
	c.t.Cleanup(func() { mux.Close() })
	conn, _, err := host.Dial(ctx, c.procs[id].m.Addr(), hello, count, func(_ int, d rdma.Domain) (rdma.EndpointConfig, error) {
		q, err := mux.Queue(d)
		return rdma.EndpointConfig{Queue: q, SendDepth: 4, RecvDepth: 4, Peer: "server"}, err
	})
	return conn, err
}

// Visitors learn the map, and wait for the next one; workers at a server that is not
// their group's head are told so, in a form that they know.
func TestVisitorsAndMoved(t *testing.T) {
	c := three(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var now, next psmsg.MapReply
	conn := c.visitor(0)
	if err := conn.Call(ctx, psmsg.MethodMap, psmsg.MapRequest{}, &now); err != nil || now.Chains == nil || now.Chains.Epoch != c.chains().Epoch {
		t.Fatalf("%+v, %v", now, err)
	}
	waits := make(chan error, 1)
	go func() {
		waits <- conn.Call(ctx, psmsg.MethodMap, psmsg.MapRequest{After: now.Chains.Epoch, WaitMicros: psmsg.MaxMapWait.Microseconds()}, &next)
	}()
	var seen psmsg.MembersReply
	if err := c.visitor(1).Call(ctx, psmsg.MethodMembers, nil, &seen); err != nil || len(seen.Servers) != 3 || len(seen.Groups) != 4 || seen.Short != 0 {
		t.Errorf("%+v, %v", seen, err)
	}
	c.kill(2)
	if err := <-waits; err != nil || next.Chains == nil || next.Chains.Epoch > now.Chains.Epoch && next.Chains.Index(2) >= 0 {
		t.Errorf("the next map: %+v, %v", next.Chains, err)
	}
	if err := conn.Call(ctx, psmsg.MethodSave, psmsg.SaveRequest{}, nil); err == nil {
		t.Error("a visitor saves")
	}
	c.untilWhole(0, 1)
	c.until("nothing moves any more", func() bool { // heads may change when all have their copies
		m := c.chains()
		target, err := m.Target(m.Servers)
		return err == nil && !slices.ContainsFunc(m.Groups, func(g place.Group) bool { return g.Joiner != nil }) &&
			slices.EqualFunc(m.Groups, target.Groups, func(a, b place.Group) bool { return a.Chain[0].Server == b.Chain[0].Server })
	})
	m := c.chains()
	for g := range m.Groups {
		head := m.Groups[g].Chain[0].Server
		hello, err := json.Marshal(psmsg.Hello{Worker: 0, Client: 1, Chained: true, Group: g, Epoch: m.Epoch}.Says())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.dial(1-head, hello, 1); err == nil {
			t.Fatal("a server that is not the head takes a worker")
		}
		if moved, ok := psmsg.MovedIn(err); !ok || moved.Group != g || moved.Epoch < m.Epoch {
			t.Errorf("refused with %v", err)
		}
		if _, err = c.dial(head, hello, 1); err == nil {
			t.Fatal("the fake group takes a worker")
		} else if _, moved := psmsg.MovedIn(err); moved {
			t.Errorf("the head says %v", err)
		}
	}
	for _, bad := range []string{"", "{", `{"protocol":1}`, `{"protocol":4,"worker":0}`, `{"protocol":5,"worker":0,"chained":true,"group":-1}`,
		`{"protocol":5,"worker":0,"chained":true,"group":6}`, `{"protocol":5,"link":{"group":99}}`} {
		if conn, err := c.dial(0, []byte(bad), 1); err == nil {
			conn.Close()
			t.Errorf("%q is let in", bad)
		}
	}
}

// Servers that end because the job has are not taken for dead.
func TestOver(t *testing.T) {
	c := three(t)
	epoch := c.chains().Epoch
	for _, p := range c.procs { // before any has gone
		c.until("all answer it", func() bool {
			for _, s := range p.m.State().Servers {
				if s.AnswerSeconds < 0 {
					return false
				}
			}
			return true
		})
	}
	for id := range 2 {
		p := c.procs[id]
		p.m.Over()
		p.stop()
		c.gone(id)
	}
	last := c.procs[2].m
	c.until("server 2 misses the others", func() bool {
		s := last.State().Servers
		return s[0].Suspected && s[1].Suspected
	})
	last.mu.Lock()
	over := last.core.over
	p := last.core.decide(last.now() + time.Hour)
	last.mu.Unlock()
	if now := c.chains().Epoch; !over || p.next != nil || now != epoch {
		t.Errorf("over %v, epoch %d after %d, next %v", over, now, epoch, p.next)
	}
}

var _ Group = (*fakeGroup)(nil)

// deafGroup adopts nothing.
type deafGroup struct {
	*fakeGroup
	err error
}

func (g deafGroup) Adopt(chain.Config) error { return g.err }

// An open that fails ends the process, with the reason, and so does a group's server
// that does not adopt its first chain.
func TestOpenFails(t *testing.T) {
	broken := errors.New("no room on this disk")
	for what, open := range map[string]func(*cluster, Seat) (Group, error){
		"open": func(*cluster, Seat) (Group, error) { return nil, broken },
		"adopt": func(c *cluster, s Seat) (Group, error) {
			return deafGroup{newFakeGroup(c.hub, s, &sync.RWMutex{}), broken}, nil
		},
	} {
		c := newCluster(t, 1, 1)
		c.openAt = func(_ *dial.Host, s Seat) (Group, error) { return open(c, s) }
		p := c.begin(0)
		select {
		case err := <-p.ended:
			if !errors.Is(err, broken) {
				t.Errorf("%s: ends with %v", what, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s fails, and the process goes on", what)
		}
		delete(c.procs, 0)
		p.host.Close()
	}
}

// FuzzBeat: whatever another process says in a beat changes no map and breaks nothing.
func FuzzBeat(f *testing.F) {
	f.Add([]byte(`{"from":{"Server":1,"Gen":1},"to":{"Server":0,"Gen":1},"epoch":7,"said":[{"group":1,"epoch":3,"what":"caught"}],"hold":[{"group":1,"epoch":3}]}`))
	f.Add([]byte(`{"from":{"Server":-1},"to":{"Server":0,"Gen":1},"said":[{"group":-1},{"group":1000000,"what":"lost"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := newCore(place.Node{Server: 0, Gen: 1}, member.Times{}, place.Limits{})
		var list []place.Server
		for id := range 3 {
			r := Registration{Server: place.Server{ID: id, Gen: 1, Lanes: 1, Weight: 1}}
			c.regs[id] = r
			list = append(list, r.Server)
		}
		m, err := place.NewChains(place.ChainsConfig{Slots: 8, Groups: 4, Replicas: 2, AllowSameHost: true}, list)
		if err != nil {
			t.Fatal(err)
		}
		value, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if m, err = place.Decode(value, 3); err != nil {
			t.Fatal(err)
		}
		c.learn(m)
		c.adopt(m, 0)
		var req psmsg.BeatRequest
		if json.Unmarshal(body, &req) != nil {
			return
		}
		if _, err := DecodeRegistration(ServerKey(0), body); err == nil && req.To.Server != 0 {
			t.Fatal("a beat is a registration")
		}
		c.asked(req, time.Millisecond)
		c.report(report{0, chain.Report{Kind: chain.Fence, Epoch: req.Epoch, Nodes: []place.Node{req.From}}}, time.Millisecond)
		if p := c.decide(2 * time.Millisecond); p.next != nil {
			if err := p.next.Check(); err != nil {
				t.Fatal(err)
			}
		}
		c.due(time.Hour)
	})
}
