package kv

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"psrt/sched/kv/kvtest"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// A server dies, and pushes fail: what became of each part is known or will be, and what is
// missing can be pushed exactly.
func TestPushStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{transport: "tcp", servers: 2, lanes: 1, workers: 1, staleness: server.Async})
	c := w.open(0, counting("t", 1))
	tab := w.table(c, "t")
	keys, ones, values := make([]uint64, 16), make([]float32, 16), make([]float32, 16)
	for i := range keys {
		keys[i], ones[i] = uint64(i), 1
	}
	must(t, tab.Push(keys, ones, Options{}))
	here := map[PushState]int{}
	w.Kill(1)
	err := tab.Push(keys, ones, Options{Timeout: 300 * time.Millisecond})
	push := PushOf(err)
	if err == nil || push == 0 {
		t.Fatalf("push %d, %v", push, err)
	}
	states := make([]PushState, len(keys))
	must(t, tab.PushStates(push, keys, states, 0))
	for i, s := range states {
		here[s]++
		if on1 := c.c.LaneOf(keys[i]) == 1; on1 && s == PushCounts {
			t.Errorf("key %d counts at a server that is dead", keys[i])
		} else if !on1 && s == PushUnknown {
			t.Errorf("key %d is unknown at a server that lives", keys[i])
		}
	}
	t.Logf("%v", here)
	parts, err := c.PushStatus(push, 0)
	must(t, err)
	if len(parts) != 2 || parts[0].Rows+parts[1].Rows != len(keys) {
		t.Errorf("parts %+v", parts)
	}
	err = tab.PushMissing(push, keys, ones, Options{Timeout: 300 * time.Millisecond})
	if PushOf(err) != push {
		t.Errorf("while the server is dead: %v", err)
	}
	w.Start(1)
	for range 3 { // more often does no harm
		must(t, tab.PushMissing(push, keys, ones, Options{}))
	}
	must(t, tab.Pull(keys, values, Options{}))
	for i, v := range values {
		want := float32(-2)
		if c.c.LaneOf(keys[i]) == 1 { // it was started anew
			want = -1
		}
		if v != want {
			t.Errorf("key %d is %v, want %v", keys[i], v, want)
		}
	}
	_, err = c.PushStatus(push+1, 0)
	wantCode(t, err, Invalid, "the last 64 are remembered")
}

// awaitLoss returns when a table's client knows that its only server is gone.
func awaitLoss(t *testing.T, tab *Table) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); CodeOf(tab.Pull([]uint64{1}, make([]float32, 1), Options{Timeout: 50 * time.Millisecond})) != Connect; {
		if time.Now().After(end) {
			t.Fatal("the client does not see that its server is gone")
		}
	}
}

// Nothing of a push was sent that found its server down: all of it is missing.
func TestPushStatusOfWhatWasNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 1, staleness: server.Async})
	c := w.open(0, counting("t", 1))
	tab := w.table(c, "t")
	w.Kill(0)
	awaitLoss(t, tab)
	err := tab.Push([]uint64{1}, []float32{1}, Options{Timeout: 50 * time.Millisecond})
	wantCode(t, err, Connect)
	states := make([]PushState, 1)
	must(t, tab.PushStates(PushOf(err), []uint64{1}, states, 0))
	if states[0] != PushMissing {
		t.Fatalf("state %d", states[0])
	}
	err2 := tab.PushMissing(PushOf(err), []uint64{1}, []float32{1}, Options{Timeout: 50 * time.Millisecond})
	if PushOf(err2) != PushOf(err) {
		t.Fatalf("%v, then %v", err, err2)
	}
	w.Start(0)
	must(t, tab.PushMissing(PushOf(err), []uint64{1}, []float32{1}, Options{}))
	must(t, tab.PushMissing(PushOf(err), []uint64{1}, []float32{1}, Options{}))
	if v := make([]float32, 1); tab.Pull([]uint64{1}, v, Options{}) != nil || v[0] != -1 {
		t.Errorf("value %v", v)
	}
}

// What is pushed again and is not finite is pushed again once: its other rows count.
func TestPushMissingThatIsNotFinite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 1, staleness: server.Async})
	c := w.open(0, counting("t", 1))
	tab := w.table(c, "t")
	w.Kill(0)
	awaitLoss(t, tab) // the push is not sent then
	keys, grads := []uint64{1, 2}, []float32{1, float32(math.NaN())}
	push := PushOf(tab.Push(keys, grads, Options{Timeout: 100 * time.Millisecond}))
	if push == 0 {
		t.Fatal("the push is not in doubt")
	}
	w.Start(0)
	wantCode(t, tab.PushMissing(push, keys, grads, Options{CheckFinite: true, Linger: time.Nanosecond}), NotFinite)
	must(t, tab.PushMissing(push, keys, grads, Options{CheckFinite: true}))
	if v := make([]float32, 2); tab.Pull(keys, v, Options{}) != nil || v[0] != -1 || v[1] != 0 {
		t.Errorf("values %v", v)
	}
}

// A push that was given up and is still sent keeps finish_steps waiting: a server would
// refuse it afterwards, and it could never be repeated.
func TestFinishStepsWaitsForPushesThatAreSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 1, staleness: server.Async})
	c := w.open(0, counting("t", 1))
	tab := w.table(c, "t")
	must(t, tab.Push([]uint64{1}, []float32{1}, Options{}))
	w.Kill(0)
	push := PushOf(tab.Push([]uint64{1}, []float32{1}, Options{Timeout: 100 * time.Millisecond}))
	if push == 0 {
		t.Fatal("the push is not in doubt")
	}
	c.mu.Lock()
	sent := len(c.zombies)
	c.mu.Unlock()
	if err := c.FinishSteps(100 * time.Millisecond); sent > 0 && CodeOf(err) != Timeout || c.finished.Load() != (sent == 0) {
		t.Fatalf("%d pushes are sent still, finish_steps: %v", sent, err)
	}
	w.Start(0)
	if sent > 0 {
		must(t, tab.PushMissing(push, []uint64{1}, []float32{1}, Options{}))
	}
	must(t, c.FinishSteps(0))
	if v := make([]float32, 1); tab.Pull([]uint64{1}, v, Options{}) != nil || sent > 0 && v[0] != -1 {
		t.Errorf("value %v", v)
	}
}

// An op that was planned before finish_steps and comes after it is refused, and is no push
// in doubt.
func TestPushAfterFinishSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 1, staleness: server.Async})
	c := w.open(0, counting("t", 1))
	tab := w.table(c, "t")
	waited, err := tab.preparePush([]uint64{1}, []float32{1}, Options{})
	must(t, err)
	asynchronous, err := tab.preparePush([]uint64{1}, []float32{1}, Options{})
	must(t, err)
	must(t, c.FinishSteps(0))
	err = waited.run(0)
	wantCode(t, err, Clock, "has finished its steps")
	if PushOf(err) != 0 {
		t.Errorf("in doubt: %v", err)
	}
	r, err := tab.pushAsync(asynchronous, nil, nil)
	must(t, err)
	<-r.Done()
	wantCode(t, r.Err(), Clock, "has finished its steps")
}

// A push from lent memory that is given up is taken back; the server says whether it came
// before that.
func TestPushStatusOfLentMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 1, staleness: server.Async})
	c := w.open(0, counting("t", 1))
	tab := w.table(c, "t")
	m, err := c.Alloc(4096)
	must(t, err)
	grads := floats(m)[:1]
	grads[0] = 1
	must(t, tab.Push([]uint64{1}, grads, Options{}))
	w.Kill(0)
	err = tab.Push([]uint64{1}, grads, Options{Timeout: 200 * time.Millisecond})
	push := PushOf(err)
	if push == 0 {
		t.Fatal(err)
	}
	w.Start(0) // it has nothing
	must(t, tab.PushMissing(push, []uint64{1}, []float32{1}, Options{}))
	must(t, tab.PushMissing(push, []uint64{1}, []float32{1}, Options{}))
	v := make([]float32, 1)
	must(t, tab.Pull([]uint64{1}, v, Options{}))
	if v[0] != -1 {
		t.Errorf("value %v", v)
	}
}

// In bsp it is the step whose pushes are in doubt. What a server has taken counts for it.
func TestPushStatusOfStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{transport: "tcp", servers: 2, lanes: 1, workers: 2, staleness: 0, dense: 40})
	c, other := w.open(0, counting("t", 1), counting("u", 1)), w.open(1)
	tab, u := w.table(c, "t"), w.table(c, "u")
	w.table(other, "t")
	keys, ones := []uint64{0, 1, 2, 3, 4, 5, 6, 7}, []float32{1, 1, 1, 1, 1, 1, 1, 1}
	must(t, tab.Push(keys, ones, Options{}))
	must(t, u.Push(keys[:1], ones[:1], Options{}))
	must(t, c.PushDense(make([]float32, 40), Options{}))
	err := c.Tick(300 * time.Millisecond) // worker 1 has not ended it
	wantCode(t, err, Timeout, "it waits for worker 1 to end step 0")
	parts, err := c.PushStatus(PushOf(err), 0)
	must(t, err)
	tables, ends := map[uint32]int{}, 0
	for _, p := range parts {
		if p.State != PushCounts {
			t.Errorf("%+v", p)
		}
		if tables[p.Table] += p.Rows; p.Ends {
			ends++
		}
	}
	if tables[tab.spec.ID] != 8 || tables[u.spec.ID] != 1 || len(tables) != 3 || ends != 2 {
		t.Errorf("rows by table %v, the step ends at %d lanes: %+v", tables, ends, parts)
	}
	must(t, other.Tick(0))
	v := make([]float32, 8)
	must(t, tab.Pull(keys, v, Options{}))
	if v[0] != -1 || v[7] != -1 {
		t.Errorf("%v", v)
	}
}

// Servers with replicas die while a trainer pushes with very little time: of every push that
// fails exactly what is missing is pushed, and in the end each counts once.
func TestPushMissingWithReplicas(t *testing.T) {
	t.Parallel()
	r := kvtest.NewReplicated(t, kvtest.Shape{Transport: "tcp", Servers: 3, Lanes: 1, Workers: 1, Staleness: server.Async}, 2, 6)
	c, err := Open(context.Background(), Config{Servers: []string{r.Addr(0)}, Token: r.Token, Transport: "tcp", Tables: []table.Spec{counting("t", 1)},
		Timeout: Duration(2 * time.Minute), ConnectTimeout: Duration(2 * time.Minute)})
	must(t, err)
	t.Cleanup(c.Close)
	tab, err := c.Table("t")
	must(t, err)
	keys, ones, values := make([]uint64, 79), make([]float32, 79), make([]float32, 79)
	for i := range keys {
		keys[i], ones[i] = uint64(i)*13, 1
	}
	r.Whole()
	var killed atomic.Bool
	pushes, doubts := 0, 0
	for begin := time.Now(); pushes < 60 || doubts == 0 && time.Since(begin) < time.Minute; pushes++ {
		if pushes == 10 {
			go func() { r.Kill(r.Head()); killed.Store(true) }()
		}
		o := Options{Timeout: 20 * time.Millisecond}
		err := tab.Push(keys, ones, o)
		for push := PushOf(err); err != nil; {
			if push == 0 {
				t.Fatalf("not in doubt: %v", err)
			}
			doubts++
			err = tab.PushMissing(push, keys, ones, o)
		}
	}
	for !killed.Load() {
		time.Sleep(time.Millisecond)
	}
	must(t, tab.Pull(keys, values, Options{}))
	for i, v := range values {
		if v != -float32(pushes) {
			t.Errorf("key %d is %v after %d pushes, %d times in doubt", keys[i], v, pushes, doubts)
		}
	}
	t.Logf("%d pushes, %d times in doubt", pushes, doubts)
}
