package server

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// flowWorld is a chain of three with two workers, and a push of the first that lands
// when the test says so: the reads of a real one may all land at once.
type flowWorld struct {
	*chainWorld
	workers [2]*chainWorker
	keys    []uint64
	head    *lane
	r       *request
}

// flowRows are as many as a raw worker has room for, and more than flowLeast.
const flowRows = 8000

func newFlowWorld(t *testing.T) *flowWorld {
	w := &flowWorld{chainWorld: newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 2, staleness: Async, tables: []table.Spec{sgdTable()}}, 3, []int{0, 1, 2})}
	w.keys = w.keysOf(0, flowRows)
	for i := range w.workers {
		w.workers[i] = w.worker(i, uint64(i)+1)
		_, err := w.workers[i].at(0)
		must(t, err)
	}
	w.head = w.members(0)[0].lanes[0]
	return w
}

// on runs f in the head's lane.
func (w *flowWorld) on(f func(c *chained)) {
	w.t.Helper()
	must(w.t, w.head.do(time.Minute, func() { f(w.head.chain) }))
}

// come has the first worker's next push arrive, of which most has landed.
func (w *flowWorld) come() {
	w.t.Helper()
	w.on(func(c *chained) {
		s := w.head.current[0]
		grads := make([]float32, flowRows*testDim)
		for i := range grads {
			grads[i] = 1
		}
		w.r = &s.reqs[psmsg.Slots-1]
		w.r.busy, w.r.keys, w.r.grads = true, w.keys, grads
		w.r.Request = psmsg.Request{Kind: psmsg.KindPush, Slot: psmsg.Slots - 1, Seq: w.workers[0].seq[0] + 1, Table: testTable, Rows: flowRows}
		w.r.fetch = fetch{total: int64(4 * len(grads)), left: int64(len(grads))}
		s.enqueuePush(w.r)
		if !c.landed(w.r) {
			w.t.Error("most of a large push is nothing to go on with")
		}
		c.takePushes()
		c.turn(time.Now())
	})
	w.until("the tail has a part of the push", func() bool {
		l := w.members(0)[2].lanes[0]
		ops := 0
		must(w.t, l.do(time.Minute, func() { ops = l.chain.m.LogOps() }))
		return ops == 1
	})
}

// land has the rest of it land.
func (w *flowWorld) land() {
	w.t.Helper()
	w.on(func(c *chained) {
		w.r.fetch.left = 0
		w.head.ready(w.r)
		c.turn(time.Now())
	})
}

// sums waits until all rows are the sum of so many pushes, everywhere.
func (w *flowWorld) sums(pushes int) {
	w.t.Helper()
	reader := w.workers[1]
	var got []float32
	w.until("the pushes are committed", func() bool {
		got = reader.pull(0, 0, w.keys, true)
		return got[0] <= -float32(pushes)
	})
	for i, v := range got {
		if v != -float32(pushes) {
			w.t.Fatalf("element %d is %v after %d pushes", i, v, pushes)
		}
	}
	w.alike()
}

func TestChainFlow(t *testing.T) {
	t.Run("to its end", func(t *testing.T) {
		w := newFlowWorld(t)
		w.come()
		w.land()
		w.sums(1)
		w.on(func(c *chained) {
			if w.r.busy || c.flowed != 1 || len(w.head.current[0].order) != 0 {
				t.Errorf("busy %v, flowed %d, %d pushes are waited for", w.r.busy, c.flowed, len(w.head.current[0].order))
			}
		})
	})
	t.Run("its worker goes", func(t *testing.T) {
		w := newFlowWorld(t)
		w.come()
		w.on(func(*chained) { w.head.drop(w.head.current[0], nil) })
		w.workers[0].lose(0)
		if code := w.workers[0].push(0, 0, w.keys, 1, false); code != psmsg.CodeOK {
			t.Errorf("the push that came again was answered %v", code)
		}
		w.sums(1)
	})
	t.Run("others wait", func(t *testing.T) {
		w := newFlowWorld(t)
		w.come()
		if code := w.workers[1].push(0, 0, w.keys, 1, false); code != psmsg.CodeOK {
			t.Errorf("the other worker's push was answered %v", code)
		}
		w.sums(1)
		w.land()
		w.sums(2)
	})
	t.Run("another head", func(t *testing.T) {
		w := newFlowWorld(t)
		w.come()
		w.cut(w.nodes[0])
		w.workers[0].lose(0)
		w.workers[1].lose(0)
		if code := w.workers[0].push(0, 0, w.keys, 1, false); code != psmsg.CodeOK {
			t.Errorf("the push that came again was answered %v", code)
		}
		w.sums(1)
	})
	t.Run("a new epoch", func(t *testing.T) {
		w := newFlowWorld(t)
		w.come()
		w.cut(w.nodes[1])
		w.land()
		w.sums(1)
	})
	t.Run("to be drained", func(t *testing.T) {
		w := newFlowWorld(t)
		w.come()
		must(t, w.members(0)[0].Hold(w.groups[0].Epoch))
		w.until("the chain is drained", func() (drained bool) {
			w.on(func(c *chained) { drained = c.m.LogOps() == 0 })
			return drained
		})
		w.change(0, func(*chain.Config) {})
		w.land()
		w.sums(1)
	})
}

// A worker's large pushes count once each while servers come and go, and flow, as far as
// they do not land all at once.
func TestChainFlowFaults(t *testing.T) {
	seed := seedtest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 8))
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, staleness: Async, tables: []table.Spec{sgdTable()}}, 4, []int{0, 1, 2})
	k, keys := w.worker(0, 1), w.keysOf(0, flowRows)
	const steps, faults = 40, 5
	flowed := uint64(0)
	var fault sync.WaitGroup
	for step := range uint64(steps) {
		if step%(steps/faults) == 2 {
			flowed += w.members(0)[0].ChainStats().Flowed
			fault.Wait()
			fault.Go(func() { t.Logf("step %d: %s", step, w.fault(r)) })
		}
		if code := k.push(0, step, keys, 1, true); code != psmsg.CodeOK && code != psmsg.CodeDuplicate {
			t.Fatalf("step %d: the push was answered %v", step, code)
		}
	}
	fault.Wait()
	for i, v := range k.pull(0, steps, keys, true) {
		if v != -steps {
			t.Fatalf("element %d is %v after %d pushes", i, v, steps)
		}
	}
	t.Logf("%d pushes or more flowed", flowed)
	w.alike()
}

// A piece is short where nobody waits behind the push, and long else, but nothing waits
// for long to be handed on.
func TestFlowPieces(t *testing.T) {
	r := &request{s: &session{}}
	at := time.Now()
	f := flowing{r: r, gave: 1000, at: at}
	for _, c := range []struct {
		behind int
		after  time.Duration
		want   int
	}{{0, 0, flowPiece}, {0, flowEvery, flowPiece}, {1, 0, flowMost}, {3, flowEvery - 1, flowMost}, {3, flowEvery, flowPiece}} {
		r.s.order = make([]*request, 1+c.behind)
		if got := f.next(at.Add(c.after)) - f.gave; got != c.want {
			t.Errorf("%+v: a piece of %d bytes", c, got)
		}
	}
}
