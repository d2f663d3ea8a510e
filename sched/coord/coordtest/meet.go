package coordtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"psrt/sched/coord"
)

// ranks runs f for n ranks at once, on both handles.
func ranks(p Pair, n int, f func(id int, c coord.Coordinator) error) []error {
	errs := make([]error, n)
	done := make(chan int)
	for id := range n {
		go func() {
			errs[id] = f(id, []coord.Coordinator{p.A, p.B}[id%2])
			done <- id
		}()
	}
	for range n {
		<-done
	}
	return errs
}

func testBarrier(t *testing.T, p Pair) {
	ctx := within(t)
	const n = 9
	var arrived atomic.Int32
	for id, err := range ranks(p, n, func(id int, c coord.Coordinator) error {
		for round := range 6 {
			arrived.Add(1)
			if err := coord.Barrier(ctx, c, fmt.Sprintf("round-%d", round), n, id); err != nil {
				return err
			}
			if got := arrived.Load(); got < int32(n*(round+1)) {
				return fmt.Errorf("left round %d when %d of %d had come", round, got, n*(round+1))
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", id, err)
		}
	}
	if kvs, _, err := p.A.List(ctx, ""); err != nil || len(kvs) != 0 {
		t.Errorf("the barriers left %v, %v", kvs, err)
	}
}

func testGather(t *testing.T, p Pair) {
	ctx := within(t)
	const n = 6
	for id, err := range ranks(p, n, func(id int, c coord.Coordinator) error {
		time.Sleep(time.Duration(id*3%5) * 10 * time.Millisecond)
		all, err := coord.Gather(ctx, c, "addr", n, id, []byte(fmt.Sprint("value of ", id)))
		if err != nil {
			return err
		}
		for i, v := range all {
			if string(v) != fmt.Sprint("value of ", i) {
				return fmt.Errorf("value %d is %q", i, v)
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", id, err)
		}
	}
}

func testMissing(t *testing.T, p Pair) {
	var err error
	// How long two take to see each other depends on the machine.
	for i, limit := range []time.Duration{300 * time.Millisecond, 3 * time.Second, 40 * time.Second} {
		if err = missingSecond(p, fmt.Sprint("epoch-", i), limit); err == nil {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
	for i, limit := range []time.Duration{200 * time.Millisecond, 3 * time.Second, 40 * time.Second} {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		name := fmt.Sprint("start-", i)
		err = coord.Party{Name: name, N: 3, ID: 1, Role: "server"}.Barrier(ctx, p.A)
		cancel()
		if err != nil && strings.HasSuffix(err.Error(), "for server 0, server 2 at barrier "+name) {
			return
		}
	}
	t.Errorf("a barrier of servers: %v", err)
}

// missingSecond has two of three at a barrier, and says what is wrong with what they are
// told when limit is over.
func missingSecond(p Pair, name string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for id, err := range ranks(p, 3, func(id int, c coord.Coordinator) error {
		if id == 1 {
			return nil
		}
		return coord.Barrier(ctx, c, name, 3, id)
	}) {
		var m *coord.MissingError
		if id != 1 && (!errors.As(err, &m) || !errors.Is(err, context.DeadlineExceeded) ||
			!strings.HasSuffix(err.Error(), "for worker 1 at barrier "+name) || !strings.HasPrefix(err.Error(), "waiting ")) {
			return fmt.Errorf("rank %d: %v", id, err)
		}
	}
	return nil
}

func testMisuse(t *testing.T, p Pair) {
	ctx := within(t)
	for _, bad := range []coord.Party{{Name: "", N: 1}, {Name: "a/b", N: 1}, {Name: "x", N: 0}, {Name: "x", N: 2, ID: 2}, {Name: "x", N: 2, ID: -1}} {
		if err := bad.Barrier(ctx, p.A); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	waiting, cancel := context.WithCancel(ctx)
	errs := make(chan error, 2)
	for _, c := range []coord.Coordinator{p.A, p.B} {
		go func() { errs <- coord.Barrier(waiting, c, "twice", 4, 3) }()
	}
	if err := <-errs; err == nil || !strings.Contains(err.Error(), "same number") {
		t.Errorf("rank 3 met itself: %v", err)
	}
	if err := coord.Barrier(ctx, p.B, "twice", 2, 0); err == nil || !strings.Contains(err.Error(), "same number") {
		t.Errorf("ranks disagree about their number: %v", err)
	}
	cancel()
	if err := <-errs; err == nil {
		t.Error("rank 3 met three others")
	}
}

func testBarrierAbort(t *testing.T, p Pair) {
	ctx := within(t)
	done := make(chan error, 1)
	go func() { done <- coord.Barrier(ctx, p.A, "b", 2, 0) }()
	time.Sleep(50 * time.Millisecond)
	is(t, coord.Abort(ctx, p.B, "worker 1 died"), nil)
	var a *coord.AbortError
	if err := <-done; !errors.As(err, &a) || a.Reason != "worker 1 died" {
		t.Fatalf("the barrier ended with %v", err)
	}
	if err := coord.Barrier(ctx, p.A, "next", 2, 0); !errors.As(err, &a) {
		t.Fatalf("a barrier after the abort ended with %v", err)
	}
}

// testBarrierDeath: a rank that came and died is missing again.
func testBarrierDeath(t *testing.T, p Pair) {
	var err error
	// How long all take to see who is there depends on the machine.
	for i, limit := range []time.Duration{700 * time.Millisecond, 5 * time.Second, 40 * time.Second} {
		if err = barrierDeath(t, p, fmt.Sprint("b", i), limit); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// barrierDeath has the first of three die at a barrier, and says what is wrong with what
// the others are told when limit is over.
func barrierDeath(t *testing.T, p Pair, name string, limit time.Duration) error {
	ctx := within(t)
	lease, err := p.A.Grant(ctx, time.Hour)
	is(t, err, nil)
	gone, cancel := context.WithCancel(ctx)
	died := make(chan error, 1)
	go func() { died <- coord.Party{Name: name, N: 3, ID: 0, Lease: lease}.Barrier(gone, p.A) }()
	waiting := make(chan error, 1)
	short, cancelShort := context.WithTimeout(ctx, limit)
	defer cancelShort()
	go func() { waiting <- coord.Barrier(short, p.B, name, 3, 1) }()
	for short.Err() == nil { // until both are there
		kvs, _, err := p.A.List(ctx, "meet/barrier/"+name+"/")
		is(t, err, nil)
		if len(kvs) == 2 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	is(t, <-died, context.Canceled)
	is(t, p.A.Revoke(ctx, lease), nil)
	// The third comes too late for the first.
	for who, err := range map[string]error{"third": coord.Barrier(short, p.A, name, 3, 2), "second": <-waiting} {
		if err == nil || !strings.HasSuffix(err.Error(), "for worker 0 at barrier "+name) {
			return fmt.Errorf("the %s left with %v", who, err)
		}
	}
	return nil
}

func testAbort(t *testing.T, p Pair) {
	ctx := within(t)
	_, up, err := coord.Aborted(ctx, p.A)
	if up || err != nil {
		t.Fatalf("the flag is up before anyone raised it: %v", err)
	}
	before, err := coord.WatchAbort(ctx, p.B)
	is(t, err, nil)
	is(t, coord.Abort(ctx, p.A, "first"), nil)
	is(t, coord.Abort(ctx, p.B, "second"), nil)
	after, err := coord.WatchAbort(ctx, p.B)
	is(t, err, nil)
	for _, ch := range []<-chan string{before, after} {
		if reason, ok := <-ch; !ok || reason != "first" {
			t.Fatalf("reason %q, %v", reason, ok)
		}
	}
	reason, up, err := coord.Aborted(ctx, p.B)
	if reason != "first" || !up || err != nil {
		t.Fatalf("aborted %q, %v, %v", reason, up, err)
	}
}

func testAwait(t *testing.T, p Pair) {
	ctx := within(t)
	got := make(chan string, 1)
	go func() {
		v, err := coord.Await(ctx, p.B, "server/1")
		got <- fmt.Sprint(string(v), err)
	}()
	time.Sleep(20 * time.Millisecond)
	put(t, p.A, "server/10", "another")
	put(t, p.A, "server/1", "here")
	if s := <-got; s != "here<nil>" {
		t.Fatalf("awaited %s", s)
	}
	if v, err := coord.Await(ctx, p.B, "server/1"); err != nil || string(v) != "here" {
		t.Fatalf("awaited what is there: %q, %v", v, err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := coord.Await(short, p.B, "server/2")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "for server/2") {
		t.Fatalf("awaited what never comes: %v", err)
	}
}
