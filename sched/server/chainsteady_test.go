package server

import (
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/sched/server/slowtest"
	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// A group whose pulls wait for a disk at any moment gets its newcomer all the same.
func TestChainJoinsUnderPulls(t *testing.T) {
	seed := seedtest.Seed(t)
	const pulling = 12
	w := newChainWorld(t, chainWorldConfig{transport: "shm", groups: 1, workers: pulling, staleness: Async, tables: []table.Spec{sgdTable()},
		options: chain.Options{ChunkBytes: 512, FeedBytes: 4096},
		change: func(c *Config) {
			c.Rows = func(r RowsConfig) (tiers.Rows, error) {
				rows, err := InMemory(r)
				if err != nil {
					return nil, err
				}
				return slowtest.New(rows, slowtest.Config{Seed: seed, Late: 20 * time.Millisecond, Wake: r.Wake, Report: t.Errorf}, &slowtest.Counts{}), nil
			}
		}}, 2, []int{0})
	keys := w.keysOf(0, 100)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for n := range pulling {
		k := w.worker(n, 1)
		k.push(0, 0, keys, 1, false)
		all.Go(func() {
			for {
				select {
				case <-stop:
					k.lose(0)
					return
				default:
					k.pull(0, 0, keys, true)
				}
			}
		})
	}
	w.join(w.nodes[1], 0)
	w.until("the newcomer has caught up", func() bool { return w.caught.Load() == 1 })
	close(stop)
	all.Wait()
	w.alike()
}

// Links and readers that end and come again leave nothing behind.
func TestChainNumbers(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}}, 2, []int{0, 1})
	k, keys := w.worker(0, 1), w.keysOf(0, 5)
	c := w.nodes[0].servers[0].lanes[0].chain
	for step := range uint64(12) {
		r, err := w.reader(w.nodes[0], 0, 0)
		must(t, err)
		if code := k.push(0, step, keys, 1, true); code != psmsg.CodeOK {
			t.Fatalf("step %d: the push was answered %v", step, code)
		}
		must(t, c.l.do(patience, func() {
			for _, p := range c.peers.all {
				c.hangUp(p)
			}
		}))
		r.close()
	}
	w.until("the lane has the worker's session and one link", func() (only bool) {
		must(t, c.l.do(patience, func() { only = len(c.l.sessions) == 1 && len(c.peers.all) == 1 && c.l.numbered >= 24 }))
		return only
	})
}

// What a head before this one had ordered as its own does not become this head's.
func TestChainOrderer(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "shm", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}}, 1, []int{0})
	c := w.nodes[0].servers[0].lanes[0].chain
	must(t, c.l.do(patience, func() {
		entered := chain.Done{Header: chain.Header{Kind: chain.Enter, Worker: ordererWorker, Client: 7, Push: 3}}
		if c.endCall(&entered, &result{}); c.orderer != 0 {
			t.Errorf("another head's orders are this one's: client %d", c.orderer)
		}
		c.entering = 7
		if c.endCall(&entered, &result{}); c.orderer != 7 || c.orders != 3 {
			t.Errorf("this head's orders are those of client %d from %d on", c.orderer, c.orders)
		}
		c.orderer, c.entering = 0, 0
	}))
	var rep psmsg.TableReply
	spec := sgdTable()
	spec.ID = 9
	w.nodes[0].servers[0].cfg.Trainers.NewTable = func(*psmsg.TableRequest) error { return nil }
	w.worker(0, 1).call(0, psmsg.MethodTable, psmsg.TableRequest{Name: "later", Spec: &spec}, &rep)
	if rep.Refused != "" || rep.Spec.ID != 9 {
		t.Errorf("%q, number %d, want the one that was asked for, 9", rep.Refused, rep.Spec.ID)
	}
}

// A checkpoint's cut is the head's alone: it holds up no event that is due before it.
func TestChainCutHoldsNothingUp(t *testing.T) {
	life := table.DefaultLifecycle()
	spec := sgdTable()
	spec.Lifecycle = &life
	w := newChainWorld(t, chainWorldConfig{transport: "shm", groups: 1, workers: 1, tables: []table.Spec{spec}}, 2, []int{0, 1})
	k, keys := w.worker(0, 1), w.keysOf(0, 20)
	k.push(0, 0, keys, 1, true)
	head := w.nodes[0].servers[0].lanes[0]
	must(t, head.do(patience, func() { head.arm(newCutting(psmsg.CutRequest{Step: 100}, spec.RowBytes())) }))
	var rep psmsg.HappenReply
	k.call(0, psmsg.MethodHappen, psmsg.HappenRequest{Table: testTable, Step: 2, Events: "d"}, &rep)
	for step := uint64(1); step < 4; step++ {
		k.push(0, step, keys, 1, true)
	}
	w.alike()
	for i, s := range w.members(0) {
		l := s.lanes[0]
		must(t, l.do(patience, func() {
			if n := l.tables[testTable].rows.Accessor().History().Count(accessor.Day); n != 1 {
				t.Errorf("replica %d has seen %d days, want 1", i, n)
			}
			l.endCut(false)
		}))
	}
}
