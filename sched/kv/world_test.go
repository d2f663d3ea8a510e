package kv

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/rdma/invariant"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

// world is servers in this process, and clients to them.
type world struct {
	t         testing.TB
	transport string
	token     []byte
	m         *place.Map
	listen    []string
	cfg       server.Config
	servers   []*running
}

type running struct {
	s    *server.Server
	host *dial.Host
	stop func()
}

type shape struct {
	transport               string
	servers, lanes, workers int
	staleness               int
	tables                  []table.Spec
	dense                   int
	maxBytes                int64
}

// each runs a test over a transport whose memory is mapped and one where it is not.
func each2(t *testing.T, f func(t *testing.T, transport string)) {
	for _, tr := range []string{"shm", "tcp"} {
		t.Run(tr, func(t *testing.T) { f(t, tr) })
	}
}

// counting is a table in which every push is added: values are exact.
func counting(name string, dim int) table.Spec {
	return table.Spec{Name: name, Dim: dim, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}
}

func newWorld(t testing.TB, s shape) *world {
	t.Helper()
	w := &world{t: t, transport: s.transport, token: []byte("a token of this test alone")}
	list := make([]place.Server, s.servers)
	for i := range list {
		list[i] = place.Server{ID: i, Weight: 1, Lanes: s.lanes}
	}
	var err error
	w.m, err = place.New(1, 0, list)
	must(t, err)
	_, leaves := tree.Leaves(1 << 14)
	shares, err := tree.Shares(leaves, s.workers)
	must(t, err)
	merges, err := tree.Top(shares)
	must(t, err)
	w.cfg = server.Config{Map: w.m, Workers: s.workers, Staleness: s.staleness, Merges: merges, Seed: 1, Node: -1, MaxBytes: s.maxBytes, ReconnectFor: time.Minute}
	for _, spec := range s.tables {
		spec.ID = psmsg.TableID(spec.Name)
		w.cfg.Tables = append(w.cfg.Tables, spec)
	}
	w.cfg.Trainers.NewTable = func(*psmsg.TableRequest) error { return nil }
	w.cfg.Trainers.Directory = func(context.Context) (*place.Map, error) { return w.directory() }
	if s.dense > 0 {
		w.cfg.Dense = server.DenseConfig{Ranges: []densemap.Range{{Len: s.dense, Rule: "grad"}}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}, Init: make([]float32, s.dense)}
		w.cfg.Trainers.Dense = []psmsg.DensePart{{Name: "bias", First: 1, Len: 2}}
	}
	for i := range list {
		w.listen = append(w.listen, "127.0.0.1:0")
		w.servers = append(w.servers, nil)
		w.start(i)
	}
	t.Cleanup(func() {
		for i := range w.servers {
			w.kill(i)
		}
	})
	return w
}

func (w *world) directory() (*place.Map, error) {
	list := append([]place.Server(nil), w.m.Servers...)
	for i := range list {
		list[i].Addr = w.listen[i]
	}
	return place.New(1, 0, list)
}

// start starts a server, at its former address if it had one.
func (w *world) start(i int) {
	w.t.Helper()
	h, err := dial.New(dial.Config{Transport: w.transport, Token: w.token, Listen: "127.0.0.1:0"})
	must(w.t, err)
	cfg := w.cfg
	cfg.ID, cfg.Host, cfg.Listen = i, h, w.listen[i]
	var s *server.Server
	for range 100 { // the port of a server that was killed is free in a moment
		if s, err = server.New(cfg); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	must(w.t, err)
	w.listen[i] = s.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(ctx); err != nil {
			w.t.Errorf("server %d: %v", i, err)
		}
	})
	w.servers[i] = &running{s, h, func() { cancel(); serving.Wait(); h.Close() }}
}

// kill ends a server; what it held is lost.
func (w *world) kill(i int) {
	if r := w.servers[i]; r != nil {
		r.stop()
		w.servers[i] = nil
	}
}

func (w *world) config(worker int) Config {
	return Config{Servers: []string{w.listen[0]}, Token: w.token, Worker: worker, Transport: w.transport, Timeout: Duration(20 * time.Second)}
}

func (w *world) open(worker int, tables ...table.Spec) *Client {
	w.t.Helper()
	cfg := w.config(worker)
	cfg.Tables = tables
	return w.openAs(cfg)
}

func (w *world) openAs(cfg Config) *Client {
	w.t.Helper()
	c, err := Open(context.Background(), cfg)
	must(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

func (w *world) table(c *Client, name string) *Table {
	w.t.Helper()
	t, err := c.Table(name)
	must(w.t, err)
	return t
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code Code, words ...string) {
	t.Helper()
	if err == nil || CodeOf(err) != code {
		t.Fatalf("got code %d, want %d: %v", CodeOf(err), code, err)
	}
	for _, w := range words {
		if !contains(err.Error(), w) {
			t.Fatalf("%q is not in: %v", w, err)
		}
	}
}
