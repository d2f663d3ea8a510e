package clock

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

// play runs one random schedule and returns what is wrong with it.
func play(m machine, seed uint64, workers, staleness int) error {
	r := rand.New(rand.NewPCG(seed, 5))
	s := newSim(m, r, workers, staleness, uint64(6+r.IntN(10)))
	stuck := s.run(r.IntN(workers))
	if err := Check(s.history, workers, staleness); err != nil {
		return err
	}
	if stuck != nil {
		return stuck
	}
	return s.complete()
}

// complete: every push of those who stayed was applied.
func (s *sim) complete() error {
	for w, k := range s.worker {
		n := uint64(0)
		for _, e := range s.history {
			if e.Kind == Applied && e.Worker == w {
				n++
			}
		}
		if !k.gone && n != 2*s.steps {
			return fmt.Errorf("%d of %d pushes of worker %d were applied", n, 2*s.steps, w)
		}
	}
	return nil
}

func TestRandomSchedules(t *testing.T) {
	base := seedtest.Seed(t)
	for _, staleness := range []int{0, 1, 2, 5, Async} {
		for workers := 1; workers <= 5; workers++ {
			for i := range uint64(40) {
				m := real{New(workers, staleness), NewOnce(workers)}
				if err := play(m, base+i, workers, staleness); err != nil {
					t.Fatalf("staleness %d, %d workers, schedule %d: %v", staleness, workers, i, err)
				}
			}
		}
	}
}

// mutant is the state machine with one mistake in it.
type mutant struct {
	real
	mistake string
	calls   int
}

func (m *mutant) on(mistake string) bool { return m.mistake == mistake }

func (m *mutant) MayPull(w int, step uint64) bool {
	switch {
	case m.on("pull one step too early") && step > 0:
		return m.real.MayPull(w, step-1)
	case m.on("pull forgets the bound"):
		return true
	case m.on("pull looks at its own clock only"):
		return m.At(w) == None || step <= m.At(w)+uint64(max(0, m.staleness))
	case m.on("pull at the bound is refused"):
		return m.real.MayPull(w, step+1)
	}
	return m.real.MayPull(w, step)
}

func (m *mutant) MayPush(w int, step uint64) bool {
	if m.on("push of the current step is refused after the third") {
		m.calls++
		return m.calls < 4 && m.real.MayPush(w, step)
	}
	return m.real.MayPush(w, step)
}

func (m *mutant) Tick(w int, step uint64) error {
	switch {
	case m.on("tick counts twice"):
		_ = m.real.Tick(w, step)
		return m.real.Tick(w, step+1)
	case m.on("tick is lost now and then"):
		if m.calls++; m.calls%7 == 0 {
			return nil
		}
	case m.on("tick of one worker moves another"):
		if w == 0 && len(m.next) > 1 {
			_ = m.real.Tick(1, m.At(1))
		}
	}
	return m.real.Tick(w, step)
}

func (m *mutant) Leave(w int) {
	if m.on("leavers are waited for") {
		return
	}
	m.real.Leave(w)
}

func (m *mutant) Min() uint64 {
	switch {
	case m.on("min is the fastest worker's"):
		return slices.Max(m.next)
	case m.on("min forgets the last worker") && len(m.next) > 1:
		return slices.Min(m.next[:len(m.next)-1])
	case m.on("min is one too high"):
		return m.real.Min() + 1
	}
	return m.real.Min()
}

func (m *mutant) Take(w int, seq uint64) Verdict {
	if m.on("duplicates are taken") {
		m.real.Take(w, seq)
		return Fresh
	}
	return m.real.Take(w, seq)
}

func TestMistakesAreCaught(t *testing.T) {
	base := seedtest.Seed(t)
	for _, c := range []struct {
		mistake   string
		staleness []int // where it is one
	}{
		{"pull one step too early", []int{0, 1, 3}},
		{"pull forgets the bound", []int{0, 1, 3}},
		{"pull looks at its own clock only", []int{0, 1}},
		{"pull at the bound is refused", []int{0}},
		{"push of the current step is refused after the third", []int{0, 2, Async}},
		{"tick counts twice", []int{0, 1}},
		{"tick is lost now and then", []int{0, 1, 3}},
		{"tick of one worker moves another", []int{0, 1}},
		{"leavers are waited for", []int{0, 1, 3}},
		{"min is the fastest worker's", []int{0}},
		{"min forgets the last worker", []int{0}},
		{"min is one too high", []int{0}},
		{"duplicates are taken", []int{0, 2, Async}},
	} {
		for _, staleness := range c.staleness {
			caught := false
			for i := uint64(0); i < 200 && !caught; i++ {
				m := &mutant{real: real{New(4, staleness), NewOnce(4)}, mistake: c.mistake}
				caught = play(m, base+i, 4, staleness) != nil
			}
			if !caught {
				t.Errorf("staleness %d: nobody noticed that %s", staleness, c.mistake)
			}
		}
	}
}

func TestCheckSeesEachBreach(t *testing.T) {
	ap := func(w int, step, seq uint64) Event { return Event{Applied, w, step, seq} }
	an := func(w int, step uint64) Event { return Event{Kind: Answered, Worker: w, Step: step} }
	for _, c := range []struct {
		name      string
		staleness int
		history   []Event
		at        int // of the violation, -1 none
		says      string
	}{
		{"bsp", 0, []Event{an(0, 0), an(1, 0), ap(0, 0, 1), ap(1, 0, 1), an(0, 1), an(1, 1)}, -1, ""},
		{"bsp reads early", 0, []Event{an(0, 0), an(1, 0), ap(0, 0, 1), an(0, 1)}, 3, "worker 1's update of step 0 is missing"},
		{"bsp applies early", 0, []Event{an(0, 0), ap(0, 0, 1), an(1, 0)}, 2, "already there"},
		{"ssp at the bound", 1, []Event{an(0, 0), ap(0, 0, 1), an(0, 1)}, -1, ""},
		{"ssp beyond", 1, []Event{an(0, 0), ap(0, 0, 1), an(0, 1), ap(0, 1, 2), an(0, 2)}, 4, "worker 1's update of step 0"},
		{"a leaver holds nobody up", 0, []Event{an(0, 0), ap(0, 0, 1), {Kind: Left, Worker: 1}, an(0, 1)}, -1, ""},
		{"asp", Async, []Event{an(0, 9), ap(0, 9, 1)}, -1, ""},
		{"twice", Async, []Event{ap(0, 0, 1), ap(0, 0, 1)}, 1, "applied before"},
		{"out of order", Async, []Event{ap(0, 0, 2), ap(0, 0, 1)}, 1, "push 2 of the same worker"},
		{"steps out of order", Async, []Event{ap(0, 1, 0), ap(0, 0, 0)}, 1, "step 1 is already applied"},
		{"a stranger", Async, []Event{ap(2, 0, 1)}, 0, "there are 2 workers"},
	} {
		err := Check(c.history, 2, c.staleness)
		var v *ViolationError
		switch {
		case c.at < 0 && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.at >= 0 && (!errors.As(err, &v) || v.At != c.at || !strings.Contains(v.Error(), c.says)):
			t.Errorf("%s: %v, want event %d with %q", c.name, err, c.at, c.says)
		}
	}
}

func TestMissingAndBlocks(t *testing.T) {
	c := New(3, 1)
	for _, w := range []int{0, 2} {
		if err := c.Tick(w, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Missing(0); !slices.Equal(got, []int{1}) {
		t.Errorf("step 0 misses %v, want worker 1", got)
	}
	if !c.MayPull(0, 1) || c.MayPull(0, 2) || c.Min() != 0 || c.At(2) != 1 {
		t.Error("SSP(1) lets a worker read at 1 and not at 2 while another is in 0")
	}
	if got := c.Blocks(2); !slices.Equal(got, []int{1}) || c.Blocks(1) != nil {
		t.Errorf("a read at 2 waits for %v, want worker 1", got)
	}
	c.Leave(1)
	c.Leave(1)
	if c.Min() != 1 || !c.MayPull(0, 2) || c.Missing(0) != nil {
		t.Errorf("after worker 1 left the minimum is %d", c.Min())
	}
	c.Leave(0)
	c.Leave(2)
	if c.Min() != None || !c.MayPull(0, math.MaxUint64) {
		t.Error("with nobody left nobody is waited for")
	}
}

func TestImpossibleOrders(t *testing.T) {
	c := New(2, Async)
	for _, f := range []struct {
		worker int
		step   uint64
		says   string
	}{
		{0, 1, "worker 0, which is in step 0"}, {-1, 0, "there are 2 workers"}, {2, 0, "there are 2 workers"},
		{0, None, "in step 0"},
	} {
		err := c.Tick(f.worker, f.step)
		var o *OrderError
		if !errors.As(err, &o) || !strings.Contains(err.Error(), f.says) || c.MayPush(f.worker, f.step) {
			t.Errorf("tick of step %d by worker %d: %v, want %q", f.step, f.worker, err, f.says)
		}
	}
	if c.At(0) != 0 || c.Min() != 0 {
		t.Error("a refused tick changed a clock")
	}
	c.Leave(1)
	if err := c.Tick(1, 0); err == nil || !strings.Contains(err.Error(), "has left") {
		t.Errorf("a worker that left pushes: %v", err)
	}
	c.Leave(5)
	if c.Staleness() != Async || New(1, -7).Staleness() != Async || c.Workers() != 2 {
		t.Error("staleness or workers are not what New was told")
	}
}

func TestOnce(t *testing.T) {
	o := NewOnce(2)
	for _, c := range []struct {
		worker int
		seq    uint64
		want   Verdict
	}{{0, 1, Fresh}, {0, 1, Duplicate}, {0, 3, Gap}, {0, 2, Fresh}, {0, 3, Fresh}, {0, 1, Duplicate}, {1, 2, Gap}, {1, 1, Fresh}, {1, 0, Duplicate}} {
		if got := o.Take(c.worker, c.seq); got != c.want {
			t.Errorf("worker %d, sequence %d: %v, want %v", c.worker, c.seq, got, c.want)
		}
	}
	if o.Last(0) != 3 || o.Last(1) != 1 {
		t.Errorf("last taken %d and %d", o.Last(0), o.Last(1))
	}
}
