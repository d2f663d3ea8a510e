package kv

import (
	"context"
	"os"
	"testing"
	"time"

	"psrt/rdma/invariant"
	"psrt/sched/kv/kvtest"
	"psrt/tiers/table"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

// world is servers, and clients to them.
type world struct {
	*kvtest.World
	t         testing.TB
	transport string
}

type shape struct {
	transport               string
	servers, lanes, workers int
	staleness               int
	tables                  []table.Spec
	dense                   int
	maxBytes                int64
}

func newWorld(t testing.TB, s shape) *world {
	t.Helper()
	return &world{kvtest.New(t, kvtest.Shape{Transport: s.transport, Servers: s.servers, Lanes: s.lanes, Workers: s.workers,
		Staleness: s.staleness, Tables: s.tables, Dense: s.dense, MaxBytes: s.maxBytes}), t, s.transport}
}

func counting(name string, dim int) table.Spec { return kvtest.Counting(name, dim) }

// each runs a test over a transport whose memory is mapped and one where it is not.
func each2(t *testing.T, f func(t *testing.T, transport string)) {
	for _, tr := range []string{"shm", "tcp"} {
		t.Run(tr, func(t *testing.T) { f(t, tr) })
	}
}

func (w *world) config(worker int) Config {
	return Config{Servers: []string{w.Listen[0]}, Token: w.Token, Worker: worker, Transport: w.transport, Timeout: Duration(2 * time.Minute)}
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
