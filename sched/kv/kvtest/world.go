package kvtest

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/audit"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

// World is servers in this process.
type World struct {
	t         testing.TB
	transport string
	m         *place.Map
	cfg       server.Config
	servers   []*running
	open      bool

	Token  []byte   // of the job
	Listen []string // where each server listens
}

type running struct {
	s    *server.Server
	host *dial.Host
	stop func()
}

// Shape says which servers.
type Shape struct {
	Transport               string
	Servers, Lanes, Workers int
	Staleness               int // 0 bsp, server.Async
	Tables                  []table.Spec
	Dense                   int // floats of the dense vector
	MaxBytes                int64
	Audit                   *audit.Config // what lanes record, may be nil
	// Open has workers come and go, as at psrt serve. ReconnectFor is how long one that broke
	// its connection may take to come back; 0: a minute.
	Open         bool
	ReconnectFor time.Duration
}

// Counting is a table in which every push is added: values are exact.
func Counting(name string, dim int) table.Spec {
	return table.Spec{Name: name, Dim: dim, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}
}

// New starts servers; they end with the test.
func New(t testing.TB, s Shape) *World {
	t.Helper()
	w := newWorld(t, s)
	for i := range s.Servers {
		w.Listen = append(w.Listen, "127.0.0.1:0")
		w.servers = append(w.servers, nil)
		w.Start(i)
	}
	t.Cleanup(func() {
		for i := range w.servers {
			w.Kill(i)
		}
	})
	return w
}

// newWorld starts nothing yet.
func newWorld(t testing.TB, s Shape) *World {
	t.Helper()
	w := &World{t: t, transport: s.Transport, open: s.Open, Token: []byte("a token of this test alone")}
	list := make([]place.Server, s.Servers)
	for i := range list {
		list[i] = place.Server{ID: i, Weight: 1, Lanes: s.Lanes}
	}
	var err error
	w.m, err = place.New(1, 0, list)
	must(t, err)
	_, leaves := tree.Leaves(1 << 14)
	shares, err := tree.Shares(leaves, s.Workers)
	must(t, err)
	merges, err := tree.Top(shares)
	must(t, err)
	w.cfg = server.Config{Map: w.m, Workers: s.Workers, Staleness: s.Staleness, Merges: merges, Seed: 1, Node: -1, MaxBytes: s.MaxBytes, ReconnectFor: cmp.Or(s.ReconnectFor, time.Minute), Audit: s.Audit}
	for _, spec := range s.Tables {
		spec.ID = psmsg.TableID(spec.Name)
		w.cfg.Tables = append(w.cfg.Tables, spec)
	}
	w.cfg.Trainers.NewTable = func(*psmsg.TableRequest) error { return nil }
	w.cfg.Trainers.Directory = func(context.Context) (*place.Map, error) { return w.directory() }
	if s.Dense > 0 {
		w.cfg.Dense = server.DenseConfig{Ranges: []densemap.Range{{Len: s.Dense, Rule: "grad"}}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}, Init: make([]float32, s.Dense)}
		w.cfg.Trainers.Dense = []psmsg.DensePart{{Name: "bias", First: 1, Len: 2}}
	}
	return w
}

func (w *World) directory() (*place.Map, error) {
	list := append([]place.Server(nil), w.m.Servers...)
	for i := range list {
		list[i].Addr = w.Listen[i]
	}
	return place.New(1, 0, list)
}

// Start starts a server, at its former address if it had one.
func (w *World) Start(i int) {
	w.t.Helper()
	h, err := dial.New(dial.Config{Transport: w.transport, Token: w.Token, Listen: "127.0.0.1:0"})
	must(w.t, err)
	cfg := w.cfg
	cfg.ID, cfg.Host, cfg.Listen = i, h, w.Listen[i]
	var s *server.Server
	if w.open {
		cfg.OnWorkerLost = func(worker int, _ error) { _ = s.Lost(worker) }
	}
	for range 100 { // the port of a server that was killed is free in a moment
		if s, err = server.New(cfg); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	must(w.t, err)
	w.Listen[i] = s.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(ctx); err != nil {
			w.t.Errorf("server %d: %v", i, err)
		}
	})
	if w.open {
		s.Vacate()
	}
	w.servers[i] = &running{s, h, func() { cancel(); serving.Wait(); h.Close() }}
}

// Host is one of the job's, that ends with the test.
func (w *World) Host() *dial.Host {
	w.t.Helper()
	h, err := dial.New(dial.Config{Transport: w.transport, Token: w.Token, Listen: "127.0.0.1:0"})
	must(w.t, err)
	w.t.Cleanup(func() { h.Close() })
	return h
}

// Kill ends a server; what it held is lost.
func (w *World) Kill(i int) {
	if r := w.servers[i]; r != nil {
		r.stop()
		w.servers[i] = nil
	}
}

// Server is a server that runs.
func (w *World) Server(i int) *server.Server { return w.servers[i].s }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
