package verbs_test

import (
	"errors"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/verbs"
)

// joined are two connected endpoints, each with a queue of its own.
func joined(t *testing.T) (x, y rdma.Endpoint, qx, qy rdma.Queue) {
	t.Helper()
	a, b := pairOfDomains(t)
	qx, qy = queueOf(t, a), queueOf(t, b)
	x, y = endpointOn(t, a, qx, false), endpointOn(t, b, qy, false)
	join(t, x, y)
	return x, y, qx, qy
}

// said sends an empty message to who has a receive posted and waits until it is
// there.
func said(t *testing.T, from rdma.Endpoint, q rdma.Queue) {
	t.Helper()
	if n, err := from.Post([]rdma.WR{{Op: rdma.OpSend, Signaled: true}}); n != 1 || err != nil {
		t.Fatalf("Post took %d of 1: %v", n, err)
	}
	if c := next(t, q); c.Status != rdma.StatusOK {
		t.Fatalf("completion %+v", c)
	}
}

func heard(t *testing.T, by rdma.Endpoint) {
	t.Helper()
	if n, err := by.PostRecv(make([]rdma.Recv, 1)); n != 1 || err != nil {
		t.Fatalf("PostRecv took %d of 1: %v", n, err)
	}
}

// TestWakeBesideLock: what completes before the queue is armed makes no event.
// Who has the queue's lock at that moment, for something else, must not keep a
// Wait from seeing it.
func TestWakeBesideLock(t *testing.T) {
	x, y, qx, qy := joined(t)
	defer verbs.Unwatched(x)() // the ticker does not do Wait's work
	for range 7 {
		// An event that is fetched leaves the queue as it is in use: not armed.
		heard(t, x)
		go func() {
			time.Sleep(20 * time.Millisecond)
			_, _ = y.Post([]rdma.WR{{Op: rdma.OpSend, Signaled: true}})
		}()
		next(t, qx)
		next(t, qy)
		heard(t, x)
		release := verbs.Hold(qx)
		said(t, y, qy)
		woke := make(chan time.Time, 1)
		go func() {
			_ = qx.Wait(time.Now().Add(patience))
			woke <- time.Now()
		}()
		time.Sleep(20 * time.Millisecond) // it has spun, and armed
		start := time.Now()
		release()
		if late := (<-woke).Sub(start); late > patience/2 {
			t.Fatalf("Wait returned %s after it could have known", late)
		}
		if c := next(t, qx); c.Op != rdma.OpRecv {
			t.Fatalf("completion %+v", c)
		}
	}
}

// TestForgottenBesideArrivals: that the peer talks is no sign that the device
// still knows our request.
func TestForgottenBesideArrivals(t *testing.T) {
	x, y, qx, qy := joined(t)
	verbs.Forget(x)
	start := time.Now()
	for time.Since(start) < patience {
		n, err := x.PostRecv(make([]rdma.Recv, 1))
		if errors.Is(err, &rdma.Error{Status: rdma.StatusRetryExceeded}) {
			t.Logf("after %s: %v", time.Since(start), err)
			return
		}
		if n != 1 || err != nil {
			t.Fatalf("PostRecv took %d: %v", n, err)
		}
		if _, err := y.Post([]rdma.WR{{Op: rdma.OpSend, Signaled: true}}); err != nil {
			continue // it has just ended
		}
		next(t, qy)
		next(t, qx)
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("the request is still waited for after %s, the limit is %s", patience, 2*opTimeout)
}

// TestUnpolledIsAlive: a process that was stopped, or one that has no time to
// poll, finds its connections as they were.
func TestUnpolledIsAlive(t *testing.T) {
	x, y, qx, qy := joined(t)
	heard(t, y)
	if n, err := x.Post([]rdma.WR{{ID: 7, Op: rdma.OpSend, Signaled: true}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	next(t, qy)
	polled := verbs.Polled(qx) // the ticker does not gather
	time.Sleep(2*opTimeout + 500*time.Millisecond)
	polled()
	if c := next(t, qx); c.ID != 7 || c.Status != rdma.StatusOK {
		t.Errorf("completion %+v", c)
	}
	heard(t, y)
	said(t, x, qx)
}

// TestDepthBesideGather: a completion on its way from the device to the queue's
// ring counts against the depth all the time.
func TestDepthBesideGather(t *testing.T) {
	x, _, qx, _ := joined(t)
	stop := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-stop:
				return
			default:
				verbs.Gather(qx)
			}
		}
	}()
	defer func() { close(stop); <-gone }()
	for round := range 300 {
		taken := 0
		for range 400 {
			n, err := x.Post([]rdma.WR{{Op: rdma.OpWrite, Signaled: true}})
			if err != nil {
				t.Fatal(err)
			}
			taken += n
		}
		if taken != 8 {
			t.Fatalf("round %d: a depth of 8 took %d requests while nobody polled", round, taken)
		}
		for range taken {
			next(t, qx)
		}
	}
}

// TestRefusedPool: an endpoint that the device refuses leaves nothing behind.
func TestRefusedPool(t *testing.T) {
	a, _ := pairOfDomains(t)
	q := queueOf(t, a)
	restore := verbs.SpoilPool(q)
	_, err := a.NewEndpoint(rdma.EndpointConfig{Queue: q, SendDepth: 8, RecvDepth: 8, SharedRecv: true})
	restore()
	if err == nil {
		t.Fatal("a pool of 2^28 receives was made")
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

// TestQueueClosedEarly: a queue that could not be closed is still its domain's.
func TestQueueClosedEarly(t *testing.T) {
	a, _ := pairOfDomains(t)
	q := queueOf(t, a)
	endpointOn(t, a, q, false)
	if err := q.Close(); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("a queue with an endpoint is closed: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := q.Wait(time.Now().Add(time.Second)); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("Wait after its domain was closed: %v", err)
	}
}
