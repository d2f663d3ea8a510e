package client

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/audit"
	"psrt/sched/audit/judge"
	"psrt/sched/place"
	"psrt/sched/server"
	"psrt/tiers"
	"psrt/tiers/table"
)

// recorder has a worker of this world record, if it is to.
func (w *world) recorder() func(int, uint64, *place.Map) (*audit.Worker, error) {
	if w.config.audit == nil {
		return nil
	}
	return recorderTo(w.config.audit, w.config.dense)
}

// recorderTo has workers record that have a dense vector of one block.
func recorderTo(a *audit.Config, dense int) func(int, uint64, *place.Map) (*audit.Worker, error) {
	return func(worker int, client uint64, m *place.Map) (*audit.Worker, error) {
		blocks := []audit.DenseBlock{}
		if dense > 0 {
			blocks = append(blocks, audit.DenseBlock{Len: dense, Lane: m.LaneOfBlock(0, 1)})
		}
		return audit.NewWorker(audit.WorkerConfig{Config: *a, Worker: worker, Client: client, Blocks: blocks})
	}
}

const auditWorkers = 3

// audited is a world that records all keys, and the table it trains.
func audited(t *testing.T, transport string, staleness int, rows func(server.RowsConfig) (tiers.Rows, error)) (*world, table.Spec) {
	t.Helper()
	spec := table.Spec{Name: "a", ID: 1, Dim: 4, Init: table.Init{ZeroPrefix: 1}, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
	w := newWorld(t, worldConfig{transport: transport, servers: 2, lanes: 2, workers: auditWorkers, staleness: staleness, tables: []table.Spec{spec}, dense: 50,
		optimizer: table.Optimizer{Kind: table.Adam}, rows: rows,
		audit: &audit.Config{Dir: t.TempDir(), Rate: 1, Limit: audit.DefaultLimit, Run: audit.NewRun(time.Now())}})
	return w, spec
}

// trainAudited has workers pull a step ahead of their pushes, as trainers do, while
// their connections break sometimes, and ends the world.
func trainAudited(t *testing.T, w *world, spec table.Spec, seed uint64, rounds int, breaks bool) {
	t.Helper()
	var mu sync.Mutex
	broken := 0
	var all sync.WaitGroup
	var clients []*Client
	for id := range auditWorkers {
		clients = append(clients, w.open(id))
	}
	for id, c := range clients {
		a := newAuditedWorker(t, c, spec, w.config.dense, rand.New(rand.NewPCG(seed, uint64(id))))
		if breaks {
			a.meanwhile = func() { breakSometimes(w, c, a.rng, &mu, &broken) }
		}
		all.Go(func() {
			a.train(t, rounds)
			must(t, c.Leave(t.Context())) // nobody waits for it
		})
	}
	all.Wait()
	for _, c := range clients { // a last look
		r := w.rows(c, spec)
		keys := c.Audit().Keys()
		if len(keys) == 0 {
			t.Error("no keys to look at")
		}
		plan(t, r, keys)
		pull(t, c, r, 0, ReadOnly|AnyClock)
	}
	if breaks && broken == 0 {
		t.Error("nothing broke: the test proves nothing")
	}
	for _, c := range clients {
		must(t, c.Audit().Err())
		must(t, c.audit.Close())
		c.audit = nil
	}
	w.stop() // lanes close their records
}

// auditedWorker is one worker with two working sets in turn.
type auditedWorker struct {
	c         *Client
	rng       *rand.Rand
	rows      [2]*Rows
	dense     [2]*Dense
	pulls     [2][2]Call
	meanwhile func()
}

func newAuditedWorker(t *testing.T, c *Client, spec table.Spec, dense int, rng *rand.Rand) *auditedWorker {
	a := &auditedWorker{c: c, rng: rng, meanwhile: func() {}}
	for i := range a.rows {
		var err error
		a.rows[i], err = c.NewRows(spec)
		must(t, err)
		t.Cleanup(a.rows[i].Close)
		a.dense[i], err = c.NewDense(dense, 1)
		must(t, err)
		t.Cleanup(a.dense[i].Close)
	}
	return a
}

func (a *auditedWorker) ask(t *testing.T, step int) {
	const vocabulary = 60
	keys := []uint64{1, 2} // some are everybody's
	for _, k := range a.rng.Perm(vocabulary)[:a.rng.IntN(20)] {
		keys = append(keys, uint64(k+3))
	}
	plan(t, a.rows[step%2], keys)
	must(t, a.c.Pull(a.rows[step%2], uint64(step), 0, &a.pulls[step%2][0]))
	must(t, a.c.PullDense(a.dense[step%2], uint64(step), 0, &a.pulls[step%2][1]))
}

func (a *auditedWorker) train(t *testing.T, rounds int) {
	a.ask(t, 0)
	for step := range rounds {
		if step+1 < rounds {
			a.ask(t, step+1)
		}
		rows, dense := a.rows[step%2], a.dense[step%2]
		a.meanwhile()
		must(t, a.c.Wait(&a.pulls[step%2][0]))
		must(t, a.c.Wait(&a.pulls[step%2][1]))
		for _, g := range [][]float32{rows.Grads(), dense.Grads()} {
			for i := range g {
				g[i] = a.rng.Float32() - 0.5
			}
		}
		var pushed, pushedDense Call
		must(t, a.c.PushDense(dense, uint64(step), a.rng.IntN(4) > 0, &pushedDense))
		must(t, a.c.Push(rows, uint64(step), true, &pushed))
		a.meanwhile()
		must(t, a.c.Wait(&pushedDense))
		must(t, a.c.Wait(&pushed))
	}
}

func judged(t *testing.T, w *world, opt judge.Options) *judge.Run {
	t.Helper()
	rep, err := judge.Dir(t.Context(), w.config.audit.Dir, opt)
	must(t, err)
	if len(rep.Runs) != 1 {
		t.Fatalf("%d runs", len(rep.Runs))
	}
	return rep.Runs[0]
}

// Healthy servers pass in every mode, though connections break in the middle of
// everything, and all values are compared.
func TestAuditOfHealthyServers(t *testing.T) {
	seed := seedtest.Seed(t)
	rounds := 25
	if testing.Short() {
		rounds = 10
	}
	for tr, modes := range map[string][]int{"shm": {0, 2, server.Async}, "tcp" + late: {0, server.Async}, "sim": {0}} {
		for _, staleness := range modes {
			if testing.Short() && tr == "sim" {
				continue
			}
			t.Run(tr+" "+judge.ModeOf(staleness), func(t *testing.T) {
				w, spec := audited(t, tr, staleness, nil)
				trainAudited(t, w, spec, seed, rounds, true)
				run := judged(t, w, judge.Options{})
				for _, v := range run.Violations {
					t.Error(v)
				}
				if !run.Consistent || len(run.Notes) > 0 || run.Unjudged > 0 || run.Steps != uint64(rounds) || run.Values < 20*rounds || run.Keys < 40 ||
					run.Workers != auditWorkers || run.Lanes != 4 || run.Consistency != judge.ModeOf(staleness) {
					t.Errorf("%+v", *run)
				}
				if staleness == 0 { // what keeps a stronger promise, keeps the weaker ones
					for _, weaker := range []int{1, 7, server.Async} {
						if run := judged(t, w, judge.Options{Promise: &weaker}); !run.Consistent || run.Consistency != judge.ModeOf(weaker) {
							t.Errorf("bsp as %s: %+v", judge.ModeOf(weaker), *run)
						}
					}
				}
			})
		}
	}
}

// Workers that nobody holds together do not keep step: asynchronous servers are
// found to keep no stronger promise.
func TestAuditOfTooWeakServers(t *testing.T) {
	seed := seedtest.Seed(t)
	for _, promise := range []int{0, 1} {
		t.Run(judge.ModeOf(promise), func(t *testing.T) {
			w, spec := audited(t, "tcp", server.Async, nil)
			// One after the other: as far apart as they can be.
			for id := range auditWorkers {
				c := w.open(id)
				newAuditedWorker(t, c, spec, w.config.dense, rand.New(rand.NewPCG(seed, uint64(id)))).train(t, 5)
			}
			run := judged(t, w, judge.Options{Promise: &promise})
			if run.Consistent || len(run.Violations) == 0 {
				t.Fatalf("%+v", *run)
			}
			kinds := map[string]bool{}
			for _, v := range run.Violations {
				kinds[v.Kind] = true
				if (v.Kind == judge.TooEarly || v.Kind == judge.TooNew) && (v.Pull == nil || v.Push == nil) {
					t.Errorf("%v names no pair", v)
				}
			}
			if !kinds[judge.TooEarly] || promise == 0 && !kinds[judge.TooNew] && !kinds[judge.Partial] {
				t.Errorf("%v", kinds)
			}
		})
	}
}

// faultyRows does one wrong thing.
type faultyRows struct {
	tiers.Rows
	fault string
	when  int // counts down
	plan  *faultPlan
	old   map[uint32][]float32 // what rows were before they changed last
}

// faultPlan is of all tables of a world: one of them errs, once.
type faultPlan struct {
	mu    sync.Mutex
	fired bool
}

// due says whether the fault is to be done now; did that it was.
func (f *faultyRows) due() bool {
	f.when--
	f.plan.mu.Lock()
	defer f.plan.mu.Unlock()
	return f.when < 0 && !f.plan.fired
}

func (f *faultyRows) did() {
	f.plan.mu.Lock()
	f.plan.fired = true
	f.plan.mu.Unlock()
}

func (f *faultyRows) Apply(rows []uint32, grads []float32) int {
	if len(rows) == 0 {
		return f.Rows.Apply(rows, grads)
	}
	dim := f.Spec().Dim
	before := make([]float32, len(rows)*dim)
	f.Rows.Gather(rows, before)
	for i, r := range rows {
		f.old[r] = before[i*dim : (i+1)*dim]
	}
	if !slices.Contains([]string{"drop", "drop a row", "twice", "last bit", "another row"}, f.fault) || len(rows) < 2 || !f.due() {
		return f.Rows.Apply(rows, grads)
	}
	f.did()
	switch f.fault {
	case "drop":
		return 0
	case "drop a row":
		rows, grads = rows[1:], grads[dim:]
	case "twice":
		f.Rows.Apply(rows, grads)
	case "last bit": // as another order of additions would give
		grads = slices.Clone(grads)
		i := slices.IndexFunc(grads, func(g float32) bool { return math.Abs(float64(g)) > 0.1 })
		grads[max(i, 0)] *= 1 + 1e-5
	case "another row":
		grads = slices.Clone(grads)
		slices.Reverse(grads)
	}
	return f.Rows.Apply(rows, grads)
}

func (f *faultyRows) Gather(rows []uint32, dst []float32) {
	f.Rows.Gather(rows, dst)
	dim := f.Spec().Dim
	row := func(i int) []float32 { return dst[i*dim : (i+1)*dim] }
	switch f.fault {
	case "stale", "torn":
		if !f.due() {
			return
		}
		n := map[string]int{"stale": dim, "torn": 2}[f.fault]
		for i, r := range rows {
			old, now := f.old[r], row(i)
			if old != nil && !slices.Equal(old[:n], now[:n]) && (n == dim || !slices.Equal(old[n:], now[n:])) {
				copy(now, old[:n])
				f.did()
			}
		}
	case "swap":
		if len(rows) > 1 && !slices.Equal(row(0), row(1)) && f.due() {
			mine := slices.Clone(row(0))
			copy(row(0), row(1))
			copy(row(1), mine)
			f.did()
		}
	}
}

// Each fault of a server's rows, at a random moment, is found.
func TestAuditFindsFaults(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 5))
	for _, f := range []struct {
		fault, words string // of them one is in the explanation of a bsp job's
	}{
		{"drop", "without|not in it"}, {"drop a row", "without|not in it"}, {"twice", "in it twice|is in it"}, {"stale", "as before"}, {"torn", "torn"},
		{"swap", "it is key"}, {"last bit", ""}, {"another row", ""},
	} {
		for _, staleness := range []int{0, 2, server.Async} {
			if testing.Short() && staleness != 0 && f.fault != "drop" {
				continue // where values come from is the same
			}
			t.Run(f.fault+" "+judge.ModeOf(staleness), func(t *testing.T) {
				once := func() *judge.Run {
					plan := &faultPlan{}
					when := 1 + rng.IntN(4)
					w, spec := audited(t, "tcp", staleness, func(c server.RowsConfig) (tiers.Rows, error) {
						rows, err := server.InMemory(c)
						return &faultyRows{Rows: rows, fault: f.fault, when: when, plan: plan, old: map[uint32][]float32{}}, err
					})
					trainAudited(t, w, spec, seed, 12, false)
					if !plan.fired {
						t.Fatal("nothing was done wrong")
					}
					return judged(t, w, judge.Options{})
				}
				run := once()
				for try := 0; f.fault == "last bit" && run.Consistent && try < 3; try++ {
					run = once() // the next sum can round a last bit away before anybody has pulled it
				}
				if run.Consistent || len(run.Violations) == 0 {
					t.Fatalf("not found: %+v", *run)
				}
				first := run.Violations[0]
				t.Log(first)
				if first.Kind != judge.Value || first.Pull == nil || first.Key == nil {
					t.Errorf("found as %s", first)
				}
				if staleness == 0 && !slices.ContainsFunc(strings.Split(f.words, "|"), func(s string) bool { return strings.Contains(first.Text, s) }) {
					t.Errorf("explained as %q, want %s", first.Text, f.words)
				}
			})
		}
	}
}
