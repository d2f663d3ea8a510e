package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma/dial"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// trouble is what happens to heads while workers train. After each event the map
// follows, as servers would have it.
func (cl *cluster) trouble(rng *rand.Rand) string {
	c, _ := cl.now()
	group := rng.IntN(len(c.Groups))
	f, what := cl.headOf(group), rng.IntN(4)
	if _, lost := c.Cut(func(s place.Server) bool { return s.ID == f.node.Server }); len(lost) > 0 && what < 2 {
		return "none"
	}
	switch what {
	case 0:
		f.stop()
		cl.cut(f.node)
		return "kill"
	case 1:
		f.freeze()
		cl.cut(f.node)
		return "stop"
	case 2:
		if len(c.Groups[group].Chain) < 2 {
			return "none"
		}
		if rng.IntN(2) == 0 {
			cl.aim(group)
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
		cl.moveHead(group)
		return "move"
	default: // the servers learn of the map one after the other
		f.lag(c)
		if len(c.Groups[group].Chain) > 1 {
			cl.moveHead(group)
		}
		time.AfterFunc(time.Duration(rng.IntN(20))*time.Millisecond, func() { f.lag(nil) })
		return "lag"
	}
}

// waitBeside is Wait by an owner that has another goroutine wait for servers.
func waitBeside(c *Client, call *Call) error {
	end := time.Now().Add(c.cfg.Timeout)
	c.Waiting(true)
	defer c.Waiting(false)
	for !call.Done() {
		if time.Now().After(end) {
			return errors.New("no answer" + c.Missing(call))
		}
		back := make(chan struct{})
		go func() {
			defer close(back)
			c.Rest(time.Now().Add(5 * time.Millisecond))
		}()
		<-back
		if err := c.Look(); err != nil {
			return err
		}
	}
	return c.Wait(call)
}

// Every push counts once and every pull sees the worker's own pushes, while heads
// die, stop and move.
func TestHeadsMove(t *testing.T) {
	const workers, groups, vocabulary = 3, 6, 60
	rounds := 80
	if testing.Short() {
		rounds = 25
	}
	seed := seedtest.Seed(t)
	cl := newCluster(t, 6, groups)
	spec := sumTable(1, 1)
	var mu sync.Mutex
	want := map[uint64]float32{}
	events := map[string]int{}
	rng := rand.New(rand.NewPCG(seed, 99))
	var all sync.WaitGroup
	for id := range workers {
		c := cl.open(id)
		wait := c.Wait
		if id == 1 {
			wait = func(call *Call) error { return waitBeside(c, call) }
		}
		r, err := c.NewRows(spec)
		must(t, err)
		t.Cleanup(r.Close)
		own := rand.New(rand.NewPCG(seed, uint64(id)))
		all.Go(func() {
			for round := range uint64(rounds) {
				var keys []uint64
				for _, k := range own.Perm(vocabulary)[:1+own.IntN(20)] {
					keys = append(keys, uint64(k))
				}
				index := plan(t, r, keys)
				var pulled, pushed Call
				must(t, c.Pull(r, round, 0, &pulled))
				if id == 0 && round%5 == 4 {
					mu.Lock()
					events[cl.trouble(rng)]++
					mu.Unlock()
				}
				must(t, wait(&pulled))
				mu.Lock()
				for i, k := range keys {
					g := float32(own.IntN(9) - 4)
					r.Grads()[index[i]] = g
					want[k] += g
				}
				mu.Unlock()
				must(t, c.Push(r, round, true, &pushed))
				must(t, wait(&pushed))
			}
			must(t, c.Leave(context.Background()))
		})
	}
	all.Wait()
	got := map[uint64]float32{}
	for g, s := range cl.groups {
		for id := range workers {
			// Whose answer was lost with its head leaves once more at the next: see psmsg.Repeatable.
			if s.left[id] < 1 || s.last[id] != uint64(rounds) {
				t.Errorf("group %d: worker %d left %d times and pushed %d times", g, id, s.left[id], s.last[id])
			}
		}
		for k, v := range s.rows {
			got[k] += v
		}
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("key %d: %v, want %v", k, got[k], v)
		}
	}
	t.Logf("%v", events)
	if len(events) == 0 {
		t.Error("nothing happened: the test proved nothing")
	}
}

// While the owner is busy elsewhere, groups are connected again, and calls from
// other goroutines find the new heads.
func TestCallsFollowTheHead(t *testing.T) {
	cl := newCluster(t, 4, 4)
	c := cl.open(0)
	k := c.Caller()
	for _, how := range []string{"move", "kill", "stop"} {
		f := cl.headOf(2)
		switch how {
		case "move":
			cl.moveHead(2)
		case "kill":
			f.stop()
			cl.cut(f.node)
		default:
			f.freeze()
			cl.cut(f.node)
		}
		var st psmsg.StatsReply
		if err := k.CallServer(context.Background(), 2, psmsg.MethodStats, struct{}{}, &st); err != nil {
			t.Fatalf("after a %s: %v", how, err)
		}
		if st.Server != cl.headOf(2).node.Server {
			t.Errorf("after a %s server %d answered", how, st.Server)
		}
	}
	links := 0
	for _, l := range c.Links() {
		links += l.QueuePairs
	}
	if links != 4 {
		t.Errorf("%d queue pairs for 4 groups: %+v", links, c.Links())
	}
}

// What changes something that a new head cannot know of is not asked twice.
func TestCutIsNotRepeated(t *testing.T) {
	cl := newCluster(t, 2, 1)
	c := cl.open(0)
	f := cl.headOf(0)
	f.freeze()
	done := make(chan error, 1)
	go func() { done <- c.CallServer(context.Background(), 0, psmsg.MethodCut, struct{}{}, nil) }()
	f.waitAsked(t, psmsg.MethodCut) // one that was not sent yet may go to whoever is the head then
	cl.cut(f.node)
	if err := <-done; err == nil {
		t.Error("a cut of a head that is gone was answered")
	}
	other := cl.headOf(0)
	var st psmsg.StatsReply
	must(t, c.CallServer(context.Background(), 0, psmsg.MethodStats, struct{}{}, &st))
	other.mu.Lock()
	defer other.mu.Unlock()
	if other.calls[psmsg.MethodCut] != 0 {
		t.Errorf("the new head was asked %d times", other.calls[psmsg.MethodCut])
	}
}

// A client that finds no head says what it was told, by whom.
func TestNoHead(t *testing.T) {
	cl := newCluster(t, 2, 2)
	cfg := cl.config(0)
	cfg.Timeout = 300 * time.Millisecond
	first, _ := cl.now()
	f := cl.headOf(0)
	f.stop()
	_, err := Open(context.Background(), cfg)
	if err == nil {
		t.Fatal("it was opened")
	}
	for _, s := range first.Servers {
		if !strings.Contains(err.Error(), s.Addr) {
			t.Errorf("server %d at %s is not named: %v", s.ID, s.Addr, err)
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "within") {
		t.Errorf("it does not say how long it tried: %v", err)
	}
}

// A group that has forgotten acknowledged pushes is not trained on.
func TestLostPushes(t *testing.T) {
	cl := newCluster(t, 2, 1)
	c := cl.open(0)
	r, err := c.NewRows(sumTable(1, 1))
	must(t, err)
	t.Cleanup(r.Close)
	for round := range uint64(3) {
		index := plan(t, r, []uint64{1})
		pull(t, c, r, round, 0)
		r.Grads()[index[0]] = 1
		push(t, c, r, round)
	}
	f := cl.headOf(0)
	f.freeze()
	g := cl.groups[0]
	g.mu.Lock()
	g.last[0] = 2
	g.mu.Unlock()
	cl.cut(f.node)
	plan(t, r, []uint64{1})
	var call Call
	err = c.Pull(r, 3, 0, &call)
	if err == nil {
		err = c.Wait(&call)
	}
	var lost *LostPushesError
	if !errors.As(err, &lost) || lost.Acknowledged != 3 || lost.Last != 2 {
		t.Errorf("it goes on: %v", err)
	}
}

// A client that allows it goes on with a job that was started again, whose epochs and sequences begin anew; another client
// refuses it.
func TestRestartedJob(t *testing.T) {
	cl := newCluster(t, 2, 1)
	first, _ := cl.now()
	later := *first
	later.Epoch, later.Job = 0, first.Job+1
	later.Servers = nil
	cfg := cl.config(0)
	cfg.Restarts = true
	c, err := Open(context.Background(), cfg)
	must(t, err)
	t.Cleanup(c.Close)
	r, err := c.NewRows(sumTable(1, 1))
	must(t, err)
	t.Cleanup(r.Close)
	round := func(step uint64, want float32) {
		t.Helper()
		index := plan(t, r, []uint64{1})
		pull(t, c, r, step, 0)
		if got := r.Values()[index[0]]; got != want {
			t.Errorf("step %d: it pulls %v, want %v", step, got, want)
		}
		r.Grads()[index[0]] = 1
		push(t, c, r, step)
	}
	round(0, 0)
	cl.cut(cl.headOf(0).node) // epoch 2
	round(1, 1)
	for _, s := range first.Servers {
		cl.mu.Lock()
		f := cl.servers[place.Node{Server: s.ID, Gen: s.Gen}]
		cl.mu.Unlock()
		f.stop()
		s.Gen++
		s.Addr = cl.startAt(place.Node{Server: s.ID, Gen: s.Gen}, s.Addr).l.Addr()
		later.Servers = append(later.Servers, s)
	}
	g := cl.groups[0]
	g.mu.Lock()
	g.last, g.client = map[int]uint64{}, map[int]uint64{}
	g.mu.Unlock()
	cl.publish(&later, 1)
	round(2, 2)
	round(3, 3)
	if strict := newResolver(cfg.Host, first, func(*place.Chains) {}); strict.take(&later) == nil {
		t.Error("a client that allows no restart takes the map")
	}
}

// Another process of the worker goes on after the pushes of the one before.
func TestNextProcess(t *testing.T) {
	cl := newCluster(t, 2, 3)
	spec := sumTable(1, 1)
	for life := range uint64(3) {
		c, err := Open(context.Background(), cl.config(0))
		must(t, err)
		r, err := c.NewRows(spec)
		must(t, err)
		index := plan(t, r, []uint64{1, 2, 3, 4, 5, 6, 7, 8})
		pull(t, c, r, life, 0)
		for i, k := range r.Keys() {
			if want := float32(life) * float32(k); r.Values()[i] != want {
				t.Errorf("key %d: %v, want %v", k, r.Values()[i], want)
			}
		}
		for i := range index {
			r.Grads()[index[i]] = float32(i + 1)
		}
		push(t, c, r, life)
		r.Close()
		c.Close()
	}
}

// The resolver knows servers that later maps have named, and takes no older map.
func TestResolver(t *testing.T) {
	cl := newCluster(t, 2, 2)
	h, err := dial.New(dial.Config{Transport: "tcp", Token: cl.token})
	must(t, err)
	t.Cleanup(func() { h.Close() })
	first, _ := cl.now()
	var told []uint64
	r := newResolver(h, first, func(c *place.Chains) { told = append(told, c.Epoch) })
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { r.run(ctx) })
	late := cl.start(place.Node{Server: 7, Gen: 1})
	servers := append(append([]place.Server{}, first.Servers...), place.Server{ID: 7, Weight: 1, Lanes: 4, Addr: late.l.Addr(), Gen: 1})
	target, err := first.Target(servers)
	must(t, err)
	next, _ := first.Step(target, place.Reports{}, place.Limits{Joins: 9, PerServer: 9})
	h0 := r.head(0)
	cl.publish(next, 2)
	<-h0.until
	r.mu.Lock()
	if r.known[late.l.Addr()] == nil {
		t.Error("a server of a later map is not known")
	}
	r.mu.Unlock()
	must(t, r.take(first))
	if e := r.head(0).epoch; e != 2 {
		t.Errorf("it went back to epoch %d", e)
	}
	other, err := place.NewChains(place.ChainsConfig{Slots: 64, Groups: 3, AllowSameHost: true}, first.Servers)
	must(t, err)
	other.Epoch = 9
	if r.take(other) == nil {
		t.Error("it took another job's map")
	}
	cancel()
	all.Wait()
	if len(told) != 1 || told[0] != 2 {
		t.Errorf("it told of epochs %v", told)
	}
}

// A connection that ends as a stepped client is opened is its owner's to make again: no
// keeper begins when the owner has the turn to himself.
func TestLossAtTheEndOfOpening(t *testing.T) {
	cl := newCluster(t, 2, 1)
	cfg := cl.config(0)
	told := 0
	cfg.Stepped, cfg.Lost = true, func() { told++ }
	c, err := Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(c.Close)
	for _, on := range []bool{true, false} { // a watcher may be between the two
		c.turn.on.Store(on)
		c.lanes[0].broken = errors.New("for the test")
		was := told
		c.lost()
		if told != was+1 || c.servers[0].down {
			t.Errorf("with turns %v: the owner is told %d times; a keeper has begun: %v", on, told-was, c.servers[0].down)
		}
	}
	if broken := c.Broken(); len(broken) != 1 {
		t.Errorf("%d groups are the owner's to connect", len(broken))
	}
}
