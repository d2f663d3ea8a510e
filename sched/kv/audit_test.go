package kv

import (
	"slices"
	"sync"
	"testing"
	"time"

	"psrt/sched/audit"
	"psrt/sched/audit/judge"
	"psrt/sched/kv/kvtest"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// What trainers by this client asked is judged with what its servers did; without the
// servers' record there is nothing to judge, and it says so.
func TestAuditOfClients(t *testing.T) {
	const workers, rounds, dim = 3, 20, 2
	tables := []table.Spec{counting("t", dim)}
	for _, staleness := range []int{0, server.Async} {
		t.Run(judge.ModeOf(staleness), func(t *testing.T) {
			a := &audit.Config{Dir: t.TempDir(), Rate: 1, Limit: audit.DefaultLimit, Run: audit.NewRun(time.Now())}
			w := &world{kvtest.New(t, kvtest.Shape{Transport: "tcp", Servers: 2, Lanes: 2, Workers: workers, Staleness: staleness, Tables: tables, Dense: 100, Audit: a}), t, "tcp"}
			var all sync.WaitGroup
			var clients []*Client
			for i := range workers {
				cfg := w.config(i)
				cfg.Audit, cfg.Tables = a.Dir, tables
				clients = append(clients, w.openAs(cfg))
			}
			errs := make([]error, workers)
			for i, c := range clients {
				all.Go(func() { errs[i] = recordedRounds(c, rounds) })
			}
			all.Wait()
			for i, c := range clients {
				must(t, errs[i])
				c.Close()
			}
			for i := range w.Listen {
				w.Kill(i)
			}
			rep, err := judge.Dir(t.Context(), a.Dir, judge.Options{})
			must(t, err)
			r := rep.Runs[0]
			for _, v := range r.Violations {
				t.Error(v)
			}
			if r.Workers != workers || r.Unjudged > 0 || len(r.Notes) > 0 || r.Values < 5*workers*rounds || r.Pulls < workers*rounds || r.Pushes < workers*rounds {
				t.Errorf("%+v", *r)
			}
		})
	}
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 1, staleness: server.Async, tables: tables})
	cfg := w.config(0)
	cfg.Audit = t.TempDir()
	_, err := Open(t.Context(), cfg)
	wantCode(t, err, BadConfig, "psrt serve with --audit")

	a := &audit.Config{Dir: t.TempDir(), Rate: 1, Limit: audit.DefaultLimit, Run: audit.NewRun(time.Now())}
	w = &world{kvtest.New(t, kvtest.Shape{Transport: "tcp", Servers: 1, Lanes: 1, Workers: 1, Staleness: server.Async, Tables: tables, Audit: a}), t, "tcp"}
	cfg = w.config(0)
	cfg.Audit = "/proc/self" // no file can be made there
	_, err = Open(t.Context(), cfg)
	wantCode(t, err, BadConfig, "/proc/self")
}

func recordedRounds(c *Client, rounds int) error {
	t, err := c.Table("t")
	if err != nil {
		return err
	}
	keys := []uint64{1, 2, 3, 5, 8, uint64(100 + c.Worker())}
	values, dense := make([]float32, len(keys)*t.Spec().Dim), make([]float32, 100)
	for range rounds {
		if err := t.Pull(keys, values, Options{}); err != nil {
			return err
		}
		if err := c.PullDense(dense, Options{}); err != nil {
			return err
		}
		if err := t.Push(keys, slices.Repeat([]float32{1}, len(values)), Options{}); err != nil {
			return err
		}
		if err := c.PushDense(slices.Repeat([]float32{1}, len(dense)), Options{}); err != nil {
			return err
		}
		if err := c.Tick(0); err != nil {
			return err
		}
	}
	return nil
}
