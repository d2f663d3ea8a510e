package client

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/audit"
	"psrt/sched/audit/judge"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// auditedLife is a world that records all keys of a table whose rows come, grow, fade
// and go.
func auditedLife(t *testing.T, staleness int, onPull bool, rows func(server.RowsConfig) (tiers.Rows, error)) (*world, table.Spec) {
	t.Helper()
	l := table.DefaultLifecycle()
	l.EmbedxThreshold, l.DeleteThreshold, l.ShowClickDecayRate, l.DeleteAfterUnseenDays, l.CreateValueWhenPush = 1.5, 0.6, 0.5, 2, !onPull
	spec := table.Spec{Name: "a", ID: 1, Dim: 4, Init: table.Init{ZeroPrefix: 1}, Optimizer: table.Optimizer{Kind: table.AdaGrad}, Lifecycle: &l}
	w := newWorld(t, worldConfig{transport: "tcp", servers: 2, lanes: 2, workers: auditWorkers, staleness: staleness, tables: []table.Spec{spec}, rows: rows, tracked: true,
		audit: &audit.Config{Dir: t.TempDir(), Rate: 1, Limit: audit.DefaultLimit, Run: audit.NewRun(time.Now())}})
	return w, spec
}

const lifeRounds = 24

// trainLife trains for lifeRounds steps, in which shrinks, days and evictions happen
// at every server between the same two steps, and has all workers look at the end.
func trainLife(t *testing.T, w *world, spec table.Spec, seed uint64) {
	t.Helper()
	var events []accessor.Event
	for step := uint64(3); step < lifeRounds; step += 3 {
		at := len(events)
		events = append(events, []accessor.Event{{Kind: accessor.Shrink}, {Kind: accessor.Day}, {Kind: accessor.Evict, Below: 0.7}}[:2+step/3%2]...)
		for _, s := range w.servers {
			rep, err := s.Happen(psmsg.HappenRequest{Table: spec.ID, From: at, Step: step, Events: accessor.FormatEvents(events[at:]...)})
			if must(t, err); rep.Len != len(events) {
				t.Fatalf("%d events, want %d", rep.Len, len(events))
			}
		}
	}
	var clients []*Client
	for id := range auditWorkers {
		clients = append(clients, w.open(id))
	}
	var rows []*Rows
	var rngs []*rand.Rand
	for id, c := range clients {
		rows, rngs = append(rows, w.rows(c, spec)), append(rngs, rand.New(rand.NewPCG(seed, uint64(id))))
	}
	together := uint64(lifeRounds)
	if w.config.staleness == server.Async { // else what happens would do so when all is over
		together = 3
	}
	for from := uint64(0); from < lifeRounds; from += together {
		var all sync.WaitGroup
		for id, c := range clients {
			all.Go(func() {
				for step := from; step < from+together; step++ {
					lifeStep(t, c, rows[id], step, rngs[id])
				}
			})
		}
		all.Wait()
	}
	for _, c := range clients {
		must(t, c.Leave(t.Context()))
	}
	for _, c := range clients { // a last look, and the end of its record
		r := w.rows(c, spec)
		plan(t, r, c.Audit().Keys())
		pull(t, c, r, 0, ReadOnly|AnyClock)
		must(t, c.Audit().Err())
		must(t, c.audit.Close())
		c.audit = nil
	}
	w.stop()
}

func lifeStep(t *testing.T, c *Client, r *Rows, step uint64, rng *rand.Rand) {
	plan(t, r, someKeys(rng))
	pull(t, c, r, step, 0)
	for g := range slices.Chunk(r.Grads(), r.spec.PushFloats()) {
		show := 1 + rng.IntN(3)
		g[0], g[1], g[2] = 7, float32(show), float32(rng.IntN(show))
		for i := range g[3:] {
			g[3+i] = rng.Float32() - 0.5
		}
	}
	push(t, c, r, step)
}

// someKeys are some of which most come again and again, and some seldom.
func someKeys(rng *rand.Rand) (keys []uint64) {
	for k := range uint64(10) {
		if rng.IntN(2) == 0 {
			keys = append(keys, k)
		}
	}
	for _, k := range rng.Perm(60)[:rng.IntN(8)] {
		keys = append(keys, uint64(k+10))
	}
	return append(keys, 100)
}

// Rows that fade and go have the values that they must have, in every mode, whether
// pulls make them or not.
func TestAuditOfALifecycle(t *testing.T) {
	seed := seedtest.Seed(t)
	for _, staleness := range []int{0, 2, server.Async} {
		for _, onPull := range []bool{false, true} {
			t.Run(judge.ModeOf(staleness), func(t *testing.T) {
				w, spec := auditedLife(t, staleness, onPull, nil)
				trainLife(t, w, spec, seed)
				run := judged(t, w, judge.Options{})
				for _, v := range run.Violations {
					t.Error(v)
				}
				if len(run.Notes) > 0 || run.Unjudged > 0 || run.Values < 10*lifeRounds {
					t.Errorf("%+v", *run)
				}
			})
		}
	}
}

// faultyLife does one thing wrong with what its rows have lived through.
type faultyLife struct {
	tiers.Rows
	fault string
	when  int
	plan  *faultPlan
}

func (f *faultyLife) due() bool {
	if f.when--; f.when >= 0 {
		return false
	}
	f.plan.mu.Lock()
	defer f.plan.mu.Unlock()
	was := f.plan.fired
	f.plan.fired = true
	return !was
}

func (f *faultyLife) Happen(e accessor.Event) error {
	switch {
	case f.fault == "everything evicted" && e.Kind == accessor.Shrink && f.due():
		// The history is as long as it should be, and another.
		return f.Rows.Happen(accessor.Event{Kind: accessor.Evict, Below: 1e9})
	case f.fault == "no shrink" && e.Kind == accessor.Shrink:
		f.plan.fired = true
		return f.Rows.Happen(accessor.Event{Kind: accessor.Day})
	}
	return f.Rows.Happen(e)
}

func (f *faultyLife) Apply(rows []uint32, grads []float32) int {
	spec := f.Spec()
	width := spec.PushFloats()
	switch {
	case f.fault == "no counts":
		grads = slices.Clone(grads)
		for g := range slices.Chunk(grads, width) {
			g[1], g[2] = 0, 0
		}
		f.plan.fired = true
	case f.fault == "clicks twice" && len(rows) > 0:
		grads = slices.Clone(grads)
		for g := range slices.Chunk(grads, width) {
			f.plan.fired = f.plan.fired || g[2] > 0
			g[1], g[2] = g[1]+g[2], 2*g[2]
		}
	case f.fault == "drop" && len(rows) > 2 && f.due():
		return 0
	}
	return f.Rows.Apply(rows, grads)
}

// What servers do wrong with counters and events is seen in the values.
func TestAuditFindsFaultsOfALifecycle(t *testing.T) {
	seed := seedtest.Seed(t)
	for _, fault := range []string{"everything evicted", "no shrink", "no counts", "clicks twice", "drop"} {
		for _, staleness := range []int{0, server.Async} {
			t.Run(fault+" "+judge.ModeOf(staleness), func(t *testing.T) {
				// One lane's rows err: whose a lane is decides nothing.
				plan, opened := &faultPlan{}, 0
				w, spec := auditedLife(t, staleness, false, func(c server.RowsConfig) (tiers.Rows, error) {
					rows, err := server.InMemory(c)
					if opened++; opened > 1 || err != nil {
						return rows, err
					}
					return &faultyLife{Rows: rows, fault: fault, when: 1, plan: plan}, nil
				})
				trainLife(t, w, spec, seed)
				if !plan.fired {
					t.Fatal("nothing was done wrong")
				}
				run := judged(t, w, judge.Options{})
				if run.Consistent || len(run.Violations) == 0 || run.Violations[0].Kind != judge.Value {
					t.Fatalf("not found: %+v %v", *run, run.Violations)
				}
				t.Log(run.Violations[0])
			})
		}
	}
}
