package clock

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// vacated is a clock of a job whose workers come and go.
func vacated(places int) *Clock {
	c := New(places, 0)
	for w := range places {
		c.Leave(w)
	}
	return c
}

// come enters a worker as a server does.
func come(t *testing.T, c *Clock, worker, workers int) uint64 {
	t.Helper()
	at := c.EnterAt(worker)
	if workers > 0 {
		if err := c.CheckQuorum(worker, workers); err != nil {
			t.Fatal(err)
		}
		c.Expect(worker, workers, at)
	}
	return c.Enter(worker, at)
}

func tick(t *testing.T, c *Clock, worker int) {
	t.Helper()
	if err := c.Tick(worker, c.At(worker)); err != nil {
		t.Fatal(err)
	}
}

// TestQuorumHoldsStepZero: a step is not over before all workers of the job were there
// and have ended it.
func TestQuorumHoldsStepZero(t *testing.T) {
	c := vacated(8)
	come(t, c, 1, 3)
	tick(t, c, 1)
	if c.Min() != 0 || !slices.Equal(c.Expected(), []int{0, 2}) || !slices.Equal(c.Blocks(1), []int{0, 2}) {
		t.Fatalf("min %d, expected %v, step 1 waits for %v", c.Min(), c.Expected(), c.Blocks(1))
	}
	if at := come(t, c, 0, 3); at != 0 {
		t.Fatalf("worker 0 begins in step %d", at)
	}
	tick(t, c, 0)
	if at := come(t, c, 2, 3); at != 0 || c.Min() != 0 || len(c.Expected()) != 0 {
		t.Fatalf("worker 2 begins in step %d, min %d, expected %v", at, c.Min(), c.Expected())
	}
	tick(t, c, 2)
	if c.Min() != 1 {
		t.Fatalf("min %d after all ended step 0", c.Min())
	}
	c.Leave(2) // in good order: the others go on
	if tick(t, c, 0); c.Min() != 1 {
		t.Fatal("worker 1 is not waited for")
	}
	if tick(t, c, 1); c.Min() != 2 {
		t.Fatalf("min %d", c.Min())
	}
	c.Leave(0)
	c.Leave(1)
	if c.Min() != None || c.Quorum() != 0 {
		t.Fatalf("min %d, quorum %d when all have left", c.Min(), c.Quorum())
	}
	if at := come(t, c, 0, 2); at != 2 || !slices.Equal(c.Expected(), []int{1}) { // the next job
		t.Fatalf("the next job begins in step %d and expects %v", at, c.Expected())
	}
}

// TestQuorumGivenUp: when all that came have left, nobody waits for those that did not.
func TestQuorumGivenUp(t *testing.T) {
	for name, end := range map[string]func(*Clock){"leave": func(c *Clock) { c.Leave(0) }, "lost": func(c *Clock) { c.Lose(0) }} {
		c := vacated(4)
		come(t, c, 0, 3)
		tick(t, c, 0)
		end(c)
		if c.Min() != None || len(c.Expected()) != 0 || c.Quorum() != 0 {
			t.Errorf("%s: min %d, expected %v, quorum %d", name, c.Min(), c.Expected(), c.Quorum())
		}
		if at := come(t, c, 0, 0); at != 1 { // one that waits for nobody
			t.Errorf("%s: enters step %d", name, at)
		}
	}
}

// TestQuorumRefused: a client that is refused says goodbye under a number that is expected.
// The others still wait for that worker.
func TestQuorumRefused(t *testing.T) {
	c := vacated(8)
	come(t, c, 0, 3)
	come(t, c, 1, 3)
	if c.CheckQuorum(2, 4) == nil {
		t.Fatal("a client of another number of workers is taken")
	}
	c.Leave(2)
	tick(t, c, 0)
	if tick(t, c, 1); c.Min() != 0 || !slices.Equal(c.Expected(), []int{2}) {
		t.Fatalf("min %d, expected %v", c.Min(), c.Expected())
	}
	if at := come(t, c, 2, 3); at != 0 {
		t.Fatalf("worker 2 begins in step %d", at)
	}
}

// TestQuorumLost: a worker that dies before all have come is waited for again, one that
// dies later is not.
func TestQuorumLost(t *testing.T) {
	c := vacated(4)
	come(t, c, 0, 3)
	come(t, c, 1, 3)
	c.Lose(1)
	if !slices.Equal(c.Expected(), []int{1, 2}) {
		t.Fatalf("expected %v", c.Expected())
	}
	come(t, c, 2, 3)
	come(t, c, 1, 3)
	c.Lose(1)
	if len(c.Expected()) != 0 || c.At(1) != None {
		t.Fatalf("expected %v, worker 1 in step %d", c.Expected(), c.At(1))
	}
}

func TestQuorumDiffers(t *testing.T) {
	c := vacated(4)
	come(t, c, 0, 2)
	var e *QuorumError
	if err := c.CheckQuorum(1, 3); !errors.As(err, &e) || e.Quorum != 2 || e.Workers != 3 {
		t.Errorf("another number of workers: %v", err)
	}
	if c.Expect(1, 3, 0); c.Quorum() != 2 {
		t.Errorf("quorum %d", c.Quorum())
	}
	if err := c.CheckQuorum(2, 2); !errors.As(err, &e) {
		t.Errorf("a worker above the number: %v", err)
	}
	if err := c.CheckQuorum(1, 5); err == nil {
		t.Error("more workers than there are places")
	}
}

// TestFinish: one that has finished is not waited for, pushes no more, and is still here.
func TestFinish(t *testing.T) {
	c := vacated(4)
	come(t, c, 0, 2)
	come(t, c, 1, 2)
	tick(t, c, 0)
	c.Finish(0, 2) // its tick of step 1 is still on its way
	if c.Finished(0) || c.Min() != 0 {
		t.Fatalf("finished before its last step, min %d", c.Min())
	}
	tick(t, c, 0)
	if !c.Finished(0) {
		t.Fatal("not finished")
	}
	for range 5 {
		tick(t, c, 1)
	}
	if c.Min() != 5 || c.Quorum() != 2 {
		t.Fatalf("min %d, quorum %d", c.Min(), c.Quorum())
	}
	var e *OrderError
	if err := c.CheckPush(0, 2); !errors.As(err, &e) || !e.Finished {
		t.Errorf("a push after the end: %v", err)
	}
	c.Finish(1, 5)
	if c.Min() != None || c.Quorum() != 2 {
		t.Fatalf("min %d, quorum %d when all have finished", c.Min(), c.Quorum())
	}
	c.Leave(0)
	c.Leave(1)
	if c.Finished(0) || c.Quorum() != 0 {
		t.Error("one that has left has finished")
	}
	if at := come(t, c, 0, 0); at != 5 || c.Finished(0) {
		t.Errorf("another process enters step %d", at)
	}
}

// TestQuorumState: a clock and one that was restored from its state do the same.
func TestQuorumState(t *testing.T) {
	seed := seedtest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 7))
	const places = 5
	c := vacated(places)
	for range 4000 {
		w := r.IntN(places)
		n := 0
		switch r.IntN(9) {
		case 0:
			c.Leave(w)
		case 1:
			c.Lose(w)
		case 2:
			c.Finish(w, uint64(r.IntN(3))+min(c.At(w), 1<<20))
		case 3:
			n = 1 + r.IntN(places)
			fallthrough
		case 4:
			if at := c.EnterAt(w); n == 0 || c.CheckQuorum(w, n) == nil {
				if n > 0 {
					c.Expect(w, n, at)
				}
				c.Enter(w, at)
			}
		default:
			if c.At(w) != None && !slices.Contains(c.Expected(), w) {
				tick(t, c, w)
			}
		}
		text, err := json.Marshal(c.State())
		if err != nil {
			t.Fatal(err)
		}
		var s State
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		again, err := Restore(places, 0, s)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := *c, *again; a.min != b.min || a.atMin != b.atMin || !slices.Equal(a.next, b.next) || !slices.Equal(a.quorum.expected, b.quorum.expected) ||
			!slices.Equal(a.quorum.end, b.quorum.end) || a.quorum.of != b.quorum.of || a.left != b.left {
			t.Fatalf("%+v, restored %+v", a, b)
		}
		if c.Quorum() == 0 && len(c.Expected()) > 0 || c.Quorum() > 0 && !c.anybody() {
			t.Fatalf("quorum %d, expected %v, somebody here: %v", c.Quorum(), c.Expected(), c.anybody())
		}
		if low := slices.Min(append([]uint64{None}, c.next...)); c.Min() != low {
			t.Fatalf("min %d, want %d", c.Min(), low)
		}
	}
}
