package kv

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// The time that a message names is the call's, however late its waiting began.
func TestTimesAreNotNegative(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		began, deadline time.Duration
		want            string
	}{{0, 30 * time.Second, " within 30s"}, {0, 1500 * time.Microsecond, " within 1.5ms"}, {time.Second, 0, " in time"}} {
		o := newOp(opPull, now.Add(c.deadline))
		o.began = now.Add(c.began)
		if got := o.within(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 1, staleness: -1})
	tab := w.table(w.open(0, counting("rows", 2)), "rows")
	keys := make([]uint64, 1<<16) // planned for longer than the call may take
	for i := range keys {
		keys[i] = uint64(i) * 7919
	}
	err := tab.Pull(keys, make([]float32, 2*len(keys)), Options{Timeout: time.Microsecond})
	wantCode(t, err, Timeout, "not done")
	if strings.Contains(err.Error(), "-") {
		t.Errorf("a negative time: %v", err)
	}
}

// A call that lingers goes on as a request, and one that is given up touches nothing.
func TestLinger(t *testing.T) {
	each2(t, func(t *testing.T, transport string) {
		w := newWorld(t, shape{transport: transport, servers: 1, lanes: 1, workers: 2, staleness: 1})
		a, b := w.open(0, counting("rows", 2)), w.open(1, counting("rows", 2))
		ta, tb := w.table(a, "rows"), w.table(b, "rows")
		must(t, ta.Push([]uint64{5}, []float32{3, 4}, Options{Linger: time.Minute}))
		for range 3 {
			must(t, a.Tick(0))
		}
		values := []float32{-1, -1}
		pull := func(into []float32, ticket bool) *Unfinished { // b is too far behind
			t.Helper()
			_, err := ta.pull([]uint64{5}, into, Options{Linger: time.Millisecond}, ticket)
			var u *Unfinished
			if !errors.As(err, &u) {
				t.Fatalf("%v, want an unfinished call", err)
			}
			return u
		}
		given := pull(values, false)
		given.Request.Cancel()
		<-given.Request.Done()
		wantCode(t, given.Request.Err(), Timeout, "given up")
		var kept []*Unfinished
		rows := make([][]float32, maxLingering) // what a call was given is the library's until it is done
		for i := range rows {
			rows[i] = []float32{-1, -1}
			kept = append(kept, pull(rows[i], true))
		}
		begin := time.Now()
		_, err := ta.pull([]uint64{5}, values, Options{Linger: time.Millisecond, Timeout: 50 * time.Millisecond}, false)
		if wantCode(t, err, Timeout, "within 50ms"); time.Since(begin) < 50*time.Millisecond {
			t.Error("a call above the limit came back early")
		}
		if !slices.Equal(values, []float32{-1, -1}) {
			t.Errorf("what was given up wrote %v", values)
		}
		for range 3 {
			must(t, b.Tick(0))
		}
		must(t, tb.Push([]uint64{6}, []float32{0, 0}, Options{}))
		for i, u := range kept {
			<-u.Request.Done()
			must(t, u.Request.Err())
			if u.Ticket() == 0 {
				t.Error("no ticket")
			}
			if !slices.Equal(rows[i], []float32{-3, -4}) { // the rule subtracts
				t.Errorf("%v, want -3 -4", rows[i])
			}
		}
		must(t, ta.Pull([]uint64{5}, values, Options{Linger: time.Minute}))
	})
}

// A barrier that was left counts as its worker's, and the next call is the same one.
func TestBarrierIsLeft(t *testing.T) {
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 2, staleness: -1})
	a, b := w.open(0, counting("rows", 2)), w.open(1, counting("rows", 2))
	w.table(a, "rows")
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		wantCode(t, a.BarrierContext(ctx, 0), Timeout)
		cancel()
	}
	must(t, b.Barrier(0))
	must(t, a.Barrier(0)) // at once: all have come
	done := make(chan error, 1)
	go func() { done <- b.Barrier(0) }()
	must(t, a.Barrier(0)) // the one after
	must(t, <-done)
}

// A call behind another barrier of its client ends by its own limit and context, and does not come to the barrier.
func TestBarrierBehindAnother(t *testing.T) {
	w := newWorld(t, shape{transport: "tcp", servers: 1, lanes: 1, workers: 2, staleness: -1})
	a, b := w.open(0, counting("rows", 2)), w.open(1, counting("rows", 2))
	w.table(a, "rows")
	done := make(chan error, 1)
	go func() { done <- a.Barrier(0) }()
	for len(a.barriers.sem) == 0 {
		time.Sleep(time.Millisecond)
	}
	wantCode(t, a.Barrier(20*time.Millisecond), Timeout)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	wantCode(t, a.BarrierContext(ctx, 0), Timeout)
	wantCode(t, a.BarrierContext(ctx, 0), Timeout)
	must(t, b.Barrier(0))
	must(t, <-done)
}
