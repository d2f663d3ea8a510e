package keeper

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/coord/local"
	"psrt/sched/kv"
	"psrt/sched/place"
	"psrt/sched/serve"
	"psrt/sched/server"
	"psrt/tiers/ckpt"
	"psrt/tiers/policy"
	"psrt/tiers/table"
)

var token = []byte("a token of these tests alone")

// world is the servers of one job in this process.
type world struct {
	t      *testing.T
	cfg    serve.Config
	store  *local.Store
	host   *dial.Host
	keeper *Keeper
	procs  map[int]*process
}

type process struct {
	*serve.Replica
	stop  context.CancelFunc
	ended chan error
}

// start runs servers, of which each group has two.
func start(t *testing.T, servers int, cfg serve.Config, load string) *world {
	t.Helper()
	w := &world{t: t, cfg: cfg, store: local.New(), procs: map[int]*process{}}
	w.cfg.Token, w.cfg.Node, w.cfg.Listen, w.cfg.Transport = token, -1, "127.0.0.1:0", "tcp"
	w.cfg.Lanes, w.cfg.NewTables = 1, true
	w.cfg.Replicated = &serve.Replicated{Coord: w.store, First: servers, Chains: place.ChainsConfig{Slots: place.DefaultSlots, Groups: 5, Replicas: 2, AllowSameHost: true}}
	var err error
	w.host, err = dial.New(dial.Config{Transport: "tcp", Token: token})
	must(t, err)
	t.Cleanup(func() {
		for _, p := range w.procs {
			p.stop()
		}
		for i, p := range w.procs {
			if err := <-p.ended; err != nil {
				t.Errorf("server %d: %v", i, err)
			}
		}
		w.store.Close()
		w.host.Close()
	})
	for i := range servers {
		w.begin(i)
	}
	w.keeper, err = Begin(context.Background(), Config{Coord: w.store, Host: w.host, Tables: cfg.Tables, Load: load, Save: cfg.Save, Log: func(s string) { t.Log(s) }})
	must(t, err)
	return w
}

// begin starts a server, as another process than those before it.
func (w *world) begin(number int) {
	w.t.Helper()
	cfg, k := w.cfg, *w.cfg.Replicated
	k.Number, cfg.Replicated = number, &k
	r, err := serve.NewReplica(cfg)
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{r, cancel, make(chan error, 1)}
	go func() { p.ended <- r.Run(ctx, func() {}) }()
	w.procs[number] = p
}

// kill ends a server that tells nobody.
func (w *world) kill(number int) {
	w.t.Helper()
	p := w.procs[number]
	delete(w.procs, number)
	p.stop()
	must(w.t, <-p.ended)
}

func (w *world) open(wish int, tables ...table.Spec) *kv.Client {
	w.t.Helper()
	var addrs []string
	for _, p := range w.procs {
		addrs = append(addrs, p.Addr())
	}
	c, err := kv.Open(context.Background(), kv.Config{Servers: addrs, Token: token, Transport: "tcp", Worker: wish, Tables: tables,
		Timeout: kv.Duration(2 * time.Minute), ConnectTimeout: kv.Duration(2 * time.Minute)})
	must(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sums() *serve.Tables {
	return &serve.Tables{Seed: 1, Specs: []table.Spec{{Name: "sum", ID: 1, Dim: 1, Optimizer: table.Optimizer{Kind: table.Sum}, Init: table.Init{Kind: table.InitZero}}}}
}

func (w *world) holds(c *kv.Client, name string, want ...float32) {
	w.t.Helper()
	keys, got := make([]uint64, len(want)), make([]float32, len(want))
	for i := range keys {
		keys[i] = uint64(i)
	}
	t, err := c.Table(name)
	must(w.t, err)
	must(w.t, t.Pull(keys, got, kv.Options{}))
	for i := range want {
		if got[i] != want[i] {
			w.t.Errorf("table %s, key %d: %v, want %v", name, i, got[i], want[i])
		}
	}
}

// Trainers come, push while servers die and come back, and go; what they pushed counts
// once, is saved at the end, and is what the next job of other servers begins with,
// tables that trainers described included.
func TestServersAndTrainersComeAndGo(t *testing.T) {
	for name, staleness := range map[string]int{"asp": server.Async, "bsp": 0} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			w := start(t, 3, serve.Config{Tables: sums(), Staleness: staleness, Clients: 4, Save: dir}, "")
			own := table.Spec{Name: "own", Dim: 1, Optimizer: table.Optimizer{Kind: table.Sum}, Init: table.Init{Kind: table.InitZero}}
			const trainers, steps, keys = 3, 30, 20
			var clients []*kv.Client // opened before any server is killed: both touch w.procs
			for range trainers {
				clients = append(clients, w.open(1, own)) // all wish to be the same one
			}
			var all sync.WaitGroup
			for id, c := range clients {
				all.Go(func() {
					for step := range steps {
						for _, name := range []string{"sum", "own"} {
							tb, err := c.Table(name)
							if err != nil {
								t.Error(err)
								return
							}
							ids, grads := make([]uint64, keys), make([]float32, keys)
							for i := range ids {
								ids[i], grads[i] = uint64(i), float32(i+id)
							}
							if err := tb.Push(ids, grads, kv.Options{}); err != nil {
								t.Error(err)
								return
							}
						}
						if err := c.Tick(0); err != nil {
							t.Error(err)
							return
						}
						if id == 0 && step%10 == 3 {
							w.kill(step / 10)
							w.begin(step / 10)
							w.whole()
						}
					}
					c.Close()
				})
			}
			all.Wait()
			want := make([]float32, keys)
			for i := range want {
				want[i] = float32(steps * (trainers*i + 0 + 1 + 2))
			}
			c := w.open(0)
			w.holds(c, "sum", want...)
			w.holds(c, "own", want...)
			must(t, w.keeper.End())
			for i, p := range w.procs {
				must(t, <-p.ended)
				delete(w.procs, i)
			}
			m, err := ckpt.Open(dir)
			must(t, err)
			if len(m.Tables) != 2 {
				t.Errorf("%d tables were saved", len(m.Tables))
			}
			next := start(t, 2, serve.Config{Tables: sums(), Staleness: staleness, Clients: 4}, dir)
			c = next.open(0)
			next.holds(c, "sum", want...)
			next.holds(c, "own", want...)
		})
	}
}

// whole waits until every group has two servers, none of them a joiner.
func (w *world) whole() {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		m, err := w.keeper.chains(context.Background())
		if err != nil {
			w.t.Error(err)
			return
		}
		short := 0
		for _, g := range m.Groups {
			if len(g.Chain) < 2 || g.Joiner != nil {
				short++
			}
		}
		if short == 0 {
			return
		}
	}
	w.t.Error("groups stay short of servers")
}

// Places: the wish where it is free, else the lowest, no more than there are; the keeper's
// is nobody's; and a trainer that dies without a word gives its own up, whichever heads
// its groups have then.
func TestPlaces(t *testing.T) {
	w := start(t, 2, serve.Config{Tables: sums(), Staleness: server.Async, Clients: 2, ReconnectFor: 500 * time.Millisecond}, "")
	a := w.open(0)
	b := w.open(0)
	if a.Worker() != 0 || b.Worker() != 1 {
		t.Errorf("numbers %d and %d, want 0 and 1", a.Worker(), b.Worker())
	}
	var addrs []string
	for _, p := range w.procs {
		addrs = append(addrs, p.Addr())
	}
	h, err := dial.New(dial.Config{Transport: "tcp", Token: token})
	must(t, err)
	cfg := kv.Config{Servers: addrs, Host: h, Timeout: kv.Duration(time.Minute), ConnectTimeout: kv.Duration(time.Minute)}
	if c, err := kv.Open(context.Background(), cfg); err == nil {
		t.Errorf("a third trainer has place %d of 2", c.Worker())
		c.Close()
	}
	a.Close()
	c, err := kv.Open(context.Background(), cfg) // dies without a word
	must(t, err)
	h.Close()
	defer c.Close()
	w.kill(0)
	d := error(fmt.Errorf("nothing was tried"))
	for end := time.Now().Add(3 * time.Minute); d != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var e *kv.Client
		if e, d = kv.Open(context.Background(), kv.Config{Servers: addrs, Token: token, Transport: "tcp", Timeout: cfg.Timeout, ConnectTimeout: cfg.Timeout}); d == nil {
			t.Cleanup(e.Close)
		}
	}
	must(t, d)
}

// With no server left the keeper ends soon, and says what is lost.
func TestEndWithoutServers(t *testing.T) {
	w := start(t, 2, serve.Config{Tables: sums(), Clients: 1, Save: filepath.Join(t.TempDir(), "saved")}, "")
	w.kill(0)
	w.kill(1)
	ended := make(chan error, 1)
	go func() { ended <- w.keeper.End() }()
	select {
	case err := <-ended:
		if !errors.Is(err, errNobody) {
			t.Errorf("it says %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it waits for servers that have ended")
	}
}

// TestBarrierAmongTrainers: it waits neither for who only looks nor for who saves.
func TestBarrierAmongTrainers(t *testing.T) {
	w := start(t, 2, serve.Config{Tables: sums(), Staleness: server.Async, Clients: 4}, "")
	a, b := w.open(0), w.open(1)
	cfg := kv.Config{Token: token, Transport: "tcp", Looks: true, Timeout: kv.Duration(2 * time.Minute), ConnectTimeout: kv.Duration(2 * time.Minute)}
	for _, p := range w.procs {
		cfg.Servers = append(cfg.Servers, p.Addr())
	}
	looks, err := kv.Open(context.Background(), cfg)
	must(t, err)
	t.Cleanup(looks.Close)
	saves, err := w.keeper.client(context.Background(), nil)
	must(t, err)
	t.Cleanup(saves.Close)
	met := make(chan error)
	go func() { met <- b.Barrier(time.Minute) }()
	must(t, a.Barrier(time.Minute))
	must(t, <-met)
}

// A budget in which no group has room is refused with the least that works, before
// trainers may come. With that the groups serve.
func TestNotOpenBeforeEveryGroupServes(t *testing.T) {
	cfg := serve.Config{Tables: sums(), Clients: 1, Staleness: server.Async, MaxBytes: 1 << 20, Token: token, Node: -1, Listen: "127.0.0.1:0", Transport: "tcp", Lanes: 1}
	begin := func(bytes int64) (opened, served error) {
		store := local.New()
		defer store.Close()
		host, err := dial.New(dial.Config{Transport: "tcp", Token: token})
		must(t, err)
		defer host.Close()
		c := cfg
		c.MaxBytes, c.Storage = bytes, &server.Storage{Dirs: []string{t.TempDir()}, Policy: policy.NameS3FIFO}
		c.Replicated = &serve.Replicated{Coord: store, First: 1, Chains: place.ChainsConfig{Slots: place.DefaultSlots, Groups: 3, Replicas: 1, AllowSameHost: true}}
		r, err := serve.NewReplica(c)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			ended <- r.Run(ctx, func() {})
			cancel()
		}()
		_, opened = Begin(ctx, Config{Coord: store, Host: host, Tables: cfg.Tables})
		if _, err := store.Get(t.Context(), serve.KeyOpen); (err == nil) != (opened == nil) {
			t.Errorf("trainers may come: %v, but Begin says %v", err == nil, opened)
		}
		cancel()
		return opened, <-ended
	}
	opened, served := begin(cfg.MaxBytes)
	var small *server.MemoryError
	if !errors.As(served, &small) || opened == nil || small.Least <= cfg.MaxBytes || small.Bytes > cfg.MaxBytes {
		t.Fatalf("Begin says %v, the server %v", opened, served)
	}
	if opened, served = begin(small.Least); opened != nil || served != nil {
		t.Errorf("with %d bytes Begin says %v, the server %v", small.Least, opened, served)
	}
}
