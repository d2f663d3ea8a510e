package server

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/chain"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/server/slowtest"
	"psrt/tiers"
	"psrt/tiers/table"
)

func sgdTable() table.Spec {
	return table.Spec{Name: "t", ID: testTable, Dim: testDim, Init: table.Init{Kind: "zero"}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}
}

// keysOf are keys of a group.
func (w *chainWorld) keysOf(group, n int) (keys []uint64) {
	for k := uint64(0); len(keys) < n; k++ {
		if w.m.LaneOf(k) == group {
			keys = append(keys, k)
		}
	}
	return keys
}

// A push and a pull through chains of one to three.
func TestChainPushAndPull(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		for replicas := 1; replicas <= 3; replicas++ {
			t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
				w := newChainWorld(t, chainWorldConfig{transport: transport, groups: 1, workers: 1, tables: []table.Spec{sgdTable()}}, 3, []int{0, 1, 2}[:replicas])
				k := w.worker(0, 1)
				keys := w.keysOf(0, 10)
				for step := range uint64(5) {
					for i, v := range k.pull(0, step, keys, false) {
						if v != -float32(step) {
							t.Fatalf("step %d: element %d is %v", step, i, v)
						}
					}
					if code := k.push(0, step, keys, 1, true); code != psmsg.CodeOK {
						t.Fatalf("step %d: the push was answered %v", step, code)
					}
				}
				w.alike()
			})
		}
	})
}

// fault is what befalls servers while workers push.
func (w *chainWorld) fault(r *rand.Rand) string {
	w.mu.Lock()
	nodes, spare := slices.Clone(w.nodes), 0
	short, group := -1, r.IntN(len(w.groups))
	for g, c := range w.groups {
		if len(c.Chain) == 1 {
			short = g
		}
		if c.Joiner != nil {
			spare++
		}
	}
	w.mu.Unlock()
	switch {
	case short < 0 && len(nodes) > 2 && r.IntN(3) == 0:
		n := nodes[r.IntN(len(nodes))]
		if r.IntN(2) == 0 { // seen after a while
			w.kill(n)
			w.cut(n)
			return fmt.Sprint("kill server ", n.node.Server)
		}
		w.cut(n)
		w.kill(n)
		return fmt.Sprint("cut and kill server ", n.node.Server)
	case len(nodes) < 4:
		return fmt.Sprint("start server ", w.start().node.Server)
	case spare < len(w.groups):
		for _, n := range nodes {
			w.mu.Lock()
			c := w.groups[group]
			isIn := c.Joiner != nil || len(c.Chain) > 2 || slices.ContainsFunc(c.Chain, func(m chain.Member) bool { return m.Node == n.node })
			w.mu.Unlock()
			if !isIn {
				w.join(n, group)
				return fmt.Sprint("server ", n.node.Server, " joins group ", group)
			}
		}
	}
	w.change(group, func(*chain.Config) {})
	return fmt.Sprint("a new epoch of group ", group)
}

// chainRun pushes integers from all workers, while servers come and go, and checks that
// each counts once and that replicas are alike.
func chainRun(t *testing.T, cfg chainWorldConfig, steps, faults int) table.Digest {
	seed := seedtest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 7))
	w := newChainWorld(t, cfg, 4, [][]int{{0, 1}, {1, 2}, {2, 0}}[:cfg.groups]...)
	var working sync.WaitGroup
	for n := range cfg.workers {
		working.Go(func() { w.train(w.worker(n, uint64(n)+1), steps) })
	}
	if cfg.plain {
		working.Wait()
		return w.alike()
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	for i := 0; i < faults; i++ {
		what := w.fault(r)
		t.Logf("%d: %s", i, what)
		at := w.committed()
		w.until("workers go on", func() bool {
			select {
			case <-done:
				return true
			default:
				return w.committed() >= at+uint64(r.IntN(20))
			}
		})
	}
	<-done
	w.until("joiners have caught up", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !slices.ContainsFunc(w.groups, func(c chain.Config) bool { return c.Joiner != nil })
	})
	if spec := &cfg.tables[0]; spec.Optimizer.Kind != table.SGD || spec.Init.Kind != "zero" {
		return w.alike()
	}
	last := w.worker(cfg.workers-1, 1<<60)
	for g := range cfg.groups {
		keys := w.keysOf(g, max(w.cfg.rows, 30))
		for i, v := range last.pull(g, 0, keys, true) {
			if want := w.want(keys[i/testDim], steps); v != want {
				t.Errorf("group %d: key %d element %d is %v, want %v", g, keys[i/testDim], i%testDim, v, want)
			}
		}
	}
	return w.alike()
}

// committed is the sum over groups.
func (w *chainWorld) committed() (n uint64) {
	for g := range w.cfg.groups {
		most := uint64(0)
		for _, s := range w.members(g) {
			most = max(most, s.ChainStats().Committed)
		}
		n += most
	}
	return n
}

// pushes says whether worker n pushes a key at a step, and what.
func pushes(n int, step, key uint64) float32 {
	x := place.Mix(key<<20 ^ step<<4 ^ uint64(n))
	if x%3 != 0 {
		return 0
	}
	return float32(1 + x>>8%5)
}

// want is a row's value after all steps.
func (w *chainWorld) want(key uint64, steps int) (sum float32) {
	for n := range w.cfg.workers {
		for s := range uint64(steps) {
			sum -= pushes(n, s, key)
		}
	}
	return sum
}

// train is one worker's steps: at each group a push for every amount, the last of which
// ends the step.
func (w *chainWorld) train(k *chainWorker, steps int) {
	defer func() {
		for g := range k.raws {
			k.collect(g)
			k.lose(g)
		}
	}()
	for s := range uint64(steps) {
		for g := range w.cfg.groups {
			k.collect(g)
			all := w.keysOf(g, max(w.cfg.rows, 30))
			by, mine := map[float32][]uint64{}, []uint64{}
			for _, key := range all {
				if v := pushes(k.number, s, key); v > 0 {
					by[v], mine = append(by[v], key), append(mine, key)
				}
			}
			if s%4 == 1 && w.cfg.staleness == 0 {
				k.pull(g, s, mine, false) // where there are no replicas, it makes rows
			}
			for v := float32(1); v <= 5; v++ {
				if len(by[v]) > 0 {
					if code := k.push(g, s, by[v], v, false); code != psmsg.CodeOK && code != psmsg.CodeDuplicate {
						w.t.Errorf("worker %d: a push of step %d was answered %v", k.number, s, code)
					}
				}
			}
			if w.cfg.dense > 0 {
				k.pushDense(g, s, float32(k.number+1), false)
			}
			if code := k.push(g, s, nil, 0, true); code != psmsg.CodeOK && code != psmsg.CodeDuplicate {
				w.t.Errorf("worker %d: the end of step %d was answered %v", k.number, s, code)
			}
		}
	}
}

// Servers die, join and change epochs while workers push: every push counts once, and
// in BSP the bits are those of servers without replicas.
func TestChainFaults(t *testing.T) {
	steps, faults := howLong(12, 8)
	for staleness, transports := range map[int][]string{0: {"shm", "tcp"}, 2: {"tcp"}, Async: {"shm"}} {
		for _, transport := range transports {
			t.Run(fmt.Sprint("staleness ", staleness, " ", transport), func(t *testing.T) {
				cfg := chainWorldConfig{transport: transport, groups: 2, workers: 3, staleness: staleness, tables: []table.Spec{sgdTable()}, dense: 50,
					change: func(c *Config) { c.Retain = true }}
				got := chainRun(t, cfg, steps, faults)
				if staleness != 0 {
					return
				}
				cfg.plain = true
				if want := chainRun(t, cfg, steps, 0); got != want {
					t.Errorf("the digest is %s, of servers without replicas %s", got, want)
				}
			})
		}
	}
}

// Tables of all kinds are copied to those that join while workers push.
func TestChainTables(t *testing.T) {
	steps, faults := howLong(8, 6)
	born := sgdTable()
	born.Init, born.Optimizer = table.Init{Kind: table.InitUniform, Scale: 0.1}, table.Optimizer{Kind: table.AdaGrad, LR: 0.1, InitialAccumulator: 1}
	other := born
	other.Name, other.ID, other.Optimizer = "other", 2, table.Optimizer{Kind: table.Adam, LR: 0.1}
	base := chainWorldConfig{transport: "tcp", groups: 2, workers: 2, tables: []table.Spec{born, other}, rows: 300, dense: 9,
		options: chain.Options{ChunkBytes: 512, FeedBytes: 4096}}
	for name, change := range map[string]func(*Config){
		"memory": func(*Config) {},
		"late": func(c *Config) {
			seed := seedtest.Seed(t)
			c.Rows = func(r RowsConfig) (tiers.Rows, error) {
				rows, err := InMemory(r)
				if err != nil {
					return nil, err
				}
				return slowtest.New(rows, slowtest.Config{Seed: seed, Late: time.Millisecond, Wake: r.Wake, Report: t.Errorf}, &slowtest.Counts{}), nil
			}
		},
		"disk": func(c *Config) { c.MaxBytes, c.Storage = 8<<20, &Storage{BatchRows: 32} },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base
			cfg.change = func(c *Config) {
				c.Retain = true
				change(c)
			}
			got := chainRun(t, cfg, steps, faults)
			cfg.plain, cfg.change = true, nil
			if want := chainRun(t, cfg, steps, 0); got != want {
				t.Errorf("the digest is %s, of servers without replicas %s", got, want)
			}
		})
	}
}

// howLong is steps and faults of one run: PSRT_CHAIN_FAULTS says how many times as many.
func howLong(steps, faults int) (int, int) {
	n, _ := strconv.Atoi(os.Getenv("PSRT_CHAIN_FAULTS"))
	if n > 0 {
		return steps * n, faults * n
	}
	if testing.Short() {
		return steps / 2, faults / 2
	}
	return steps, faults
}
