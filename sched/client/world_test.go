package client

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/tcp"
	"psrt/sched/audit"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/server"
	"psrt/sched/server/slowtest"
	"psrt/sched/tree"
	"psrt/tiers"
	"psrt/tiers/table"
)

// world is real servers in this process, and clients to them.
type world struct {
	t       testing.TB
	config  worldConfig
	servers []*server.Server
	m       *place.Map
	token   []byte
	stop    func() // ends the servers
	sim     *simNet
	late    slowtest.Counts
}

type worldConfig struct {
	transport               string
	servers, lanes, workers int
	staleness               int
	tables                  []table.Spec
	dense                   int                           // elements
	wrap                    func(rdma.Domain) rdma.Domain // around the servers' domains, may be nil
	maxBytes                int64
	watch                   server.Watch
	slow                    *slowtest.Config // tables that answer late
	audit                   *audit.Config    // what workers and lanes record, may be nil
	tracked                 bool             // tables note what changes
	rows                    func(server.RowsConfig) (tiers.Rows, error)
	optimizer               table.Optimizer // of the dense vector; the zero value is a sum
}

// transports is what every test runs over: one where memory is mapped, one
// where it is not, and that one with grants; and the first two with tables that
// answer late.
var transports = []string{"shm", "tcp", "tcp" + grants, "shm" + late, "tcp" + late}

// grants behind a transport's name makes the server grant, which over loopback
// it does not by itself.
const grants = " granted"

// sumTable adds what is pushed: rows start at zero and SGD of rate 1 subtracts
// gradients, so with whole numbers the sums are exact.
func sumTable(id uint32, dim int) table.Spec {
	return table.Spec{Name: "sum", ID: id, Dim: dim, Init: table.Init{Kind: "zero"}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}
}

func newWorld(t testing.TB, c worldConfig) *world {
	t.Helper()
	fanIn := server.FanInAuto
	if name, ok := strings.CutSuffix(c.transport, grants); ok {
		c.transport, fanIn = name, server.FanInGranted
	}
	if name, ok := strings.CutSuffix(c.transport, late); ok {
		c.transport = name
		if c.slow == nil {
			c.slow = &slowtest.Config{Seed: seedtest.Seed(t), Late: 2 * time.Millisecond}
		}
	}
	w := &world{t: t, config: c, token: []byte("a token of this test alone")}
	if c.transport == "sim" {
		w.sim = newSimNet(t)
	}
	list := make([]place.Server, c.servers)
	for i := range list {
		list[i] = place.Server{ID: i, Weight: 1, Lanes: c.lanes}
	}
	m, err := place.New(1, place.DefaultSlots, list)
	if err != nil {
		t.Fatal(err)
	}
	_, leaves := tree.Leaves(1 << 14)
	shares, err := tree.Shares(leaves, c.workers)
	if err != nil {
		t.Fatal(err)
	}
	merges, err := tree.Top(shares)
	if err != nil {
		t.Fatal(err)
	}
	var dense server.DenseConfig
	if c.dense > 0 {
		dense = server.DenseConfig{Ranges: []densemap.Range{{Offset: 0, Len: c.dense, Rule: "grad"}}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}, Init: make([]float32, c.dense)}
		if c.optimizer.Kind != "" {
			dense.Optimizer = c.optimizer
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range list {
		s, err := server.New(server.Config{ID: i, Map: m, Host: w.hostWith(c.wrap), Listen: "127.0.0.1:0", Workers: c.workers, Staleness: c.staleness,
			Merges: merges, Seed: 1, Tables: c.tables, Dense: dense, Node: -1, MaxBytes: c.maxBytes, ReconnectFor: time.Minute, FanIn: fanIn, Watch: c.watch, Rows: w.openRows(), Audit: c.audit, Tracked: c.tracked})
		if err != nil {
			t.Fatal(err)
		}
		list[i].Addr = s.Addr()
		w.servers = append(w.servers, s)
		running.Go(func() {
			if err := s.Serve(ctx); err != nil {
				t.Errorf("server %d: %v", i, err)
			}
		})
	}
	w.stop = func() { cancel(); running.Wait() }
	t.Cleanup(w.stop) // after clients, before hosts
	if w.m, err = place.New(1, place.DefaultSlots, list); err != nil {
		t.Fatal(err)
	}
	return w
}

// late behind a transport's name makes tables answer late.
const late = " late"

// openRows makes tables late where the test asks for it.
func (w *world) openRows() func(server.RowsConfig) (tiers.Rows, error) {
	if w.config.slow == nil {
		return w.config.rows
	}
	return func(c server.RowsConfig) (tiers.Rows, error) {
		rows, err := server.InMemory(c)
		if err != nil {
			return nil, err
		}
		slow := *w.config.slow
		slow.Seed += uint64(c.Server)<<16 + uint64(c.Lane)<<8 + uint64(c.Spec.ID)
		slow.Wake, slow.Report = c.Wake, w.t.Errorf
		return slowtest.New(rows, slow, &w.late), nil
	}
}

func (w *world) host() *dial.Host {
	w.t.Helper()
	return w.hostWith(nil)
}

// hostWith makes a host that wraps its transport's domain, if wrap is given.
func (w *world) hostWith(wrap func(rdma.Domain) rdma.Domain) *dial.Host {
	w.t.Helper()
	cfg := dial.Config{Transport: w.config.transport, Token: w.token, Listen: "127.0.0.1:0"}
	open := map[string]func() (rdma.Domain, error){
		"sim": func() (rdma.Domain, error) { return w.sim.domain(), nil },
		"tcp": func() (rdma.Domain, error) { return tcp.New(tcp.Config{Listen: "127.0.0.1:0"}) },
	}[w.config.transport]
	if w.config.transport == "sim" || wrap != nil {
		cfg.Transports = []dial.Transport{{Name: w.config.transport, CrossHost: true, Open: func() (rdma.Domain, error) {
			d, err := open()
			if err == nil && wrap != nil {
				d = wrap(d)
			}
			return d, err
		}}}
	}
	h, err := dial.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { h.Close() })
	return h
}

func (w *world) open(worker int) *Client {
	w.t.Helper()
	return w.openFor(context.Background(), worker)
}

func (w *world) openFor(ctx context.Context, worker int) *Client {
	w.t.Helper()
	return w.openBy(ctx, worker, w.host())
}

func (w *world) openBy(ctx context.Context, worker int, h *dial.Host) *Client {
	w.t.Helper()
	c, err := Open(ctx, Config{Worker: worker, Map: w.m, Host: h, Timeout: time.Minute, Node: -1, Audit: w.recorder()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// copyUpTo makes the client copy payloads up to n bytes into its slots, and
// write longer ones from where they lie.
func (c *Client) copyUpTo(n int) {
	c.copyBytes = func(string) int { return n }
	for _, l := range c.lanes {
		l.copyBytes = n
	}
}

func (w *world) rows(c *Client, spec table.Spec) *Rows {
	w.t.Helper()
	r, err := c.NewRows(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(r.Close)
	return r
}

// digest is all servers' together.
func (w *world) digest() table.Digest {
	w.t.Helper()
	var sum table.Digest
	for _, s := range w.servers {
		d, err := s.Digest()
		if err != nil {
			w.t.Fatal(err)
		}
		sum.Add(d)
	}
	return sum
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plan numbers keys as one leaf and returns each key's row.
func plan(t testing.TB, r *Rows, keys []uint64) []int32 {
	t.Helper()
	index := [][]int32{make([]int32, len(keys))}
	must(t, r.Plan([][]uint64{keys}, index))
	return index[0]
}

func pull(t testing.TB, c *Client, r *Rows, clock uint64, opt PullOption) Call {
	t.Helper()
	var call Call
	must(t, c.Pull(r, clock, opt, &call))
	must(t, c.Wait(&call))
	return call
}

func push(t testing.TB, c *Client, r *Rows, clock uint64) Call {
	t.Helper()
	var call Call
	must(t, c.Push(r, clock, true, &call))
	must(t, c.Wait(&call))
	return call
}
