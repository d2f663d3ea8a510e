package stall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// said collects lines.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *said) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// back moves a gate's wait into the past, so that no test waits for time to pass.
func (g *Gate) back(d time.Duration) {
	g.w.start = g.w.start.Add(-d) // now is later; entered before
}

func watch(after time.Duration) (*Watch, *said) {
	s := &said{}
	return New(Config{Rank: "worker 0", After: after, Say: s.say}), s
}

func TestAWaitIsToldOnceThenWhenItDoubles(t *testing.T) {
	w, s := watch(time.Minute)
	g := w.Gate()
	g.Enter(time.Now())
	if w.look(t.Context()); len(s.all()) != 0 || g.Due() {
		t.Fatalf("told at once: %q", s.all())
	}
	g.back(70 * time.Second)
	if w.look(t.Context()); len(s.all()) != 0 || !g.Due() {
		t.Fatalf("told before the owner has had time to describe it: %q", s.all())
	}
	asked := 0
	g.Describe(Wait{On: "server 1", Kind: Completion, What: "pull at clock 118"}, func(context.Context) []Wait {
		asked++
		return []Wait{{Who: "server 1 lane 0", On: "worker 3", Kind: Clock, What: "it is in step 117", Seconds: 69}}
	})
	if g.Due() {
		t.Error("it is described, and due again")
	}
	w.look(t.Context())
	w.look(t.Context())
	want := "stall: worker 0 waits for server 1 since 70 s: no completion (pull at clock 118); server 1 lane 0 waits for worker 3 since 69 s: clock (it is in step 117)"
	if l := s.all(); len(l) != 1 || l[0] != want || asked != 1 {
		t.Fatalf("asked %d times, %q, want\n%s", asked, l, want)
	}
	g.back(69 * time.Second)
	if w.look(t.Context()); len(s.all()) != 1 {
		t.Errorf("told again before it was twice as old: %q", s.all())
	}
	g.back(10 * time.Second)
	w.look(t.Context())
	if l := s.all(); len(l) != 2 || !strings.Contains(l[1], "since 149 s") {
		t.Errorf("%q", l)
	}
	if now := w.Current(t.Context()); len(now) != 1 || now[0].On != "server 1" || now[0].Because[0].On != "worker 3" {
		t.Errorf("%+v", now)
	}
	if n, oldest := w.Count(t.Context()); n != 1 || oldest < 149*time.Second {
		t.Errorf("%d, the oldest %v", n, oldest)
	}
	g.Leave()
	w.look(t.Context())
	w.look(t.Context())
	if l := s.all(); len(l) != 3 || !strings.HasPrefix(l[2], "stall over: worker 0 waits for server 1 since 149 s") || strings.Contains(l[2], "worker 3") {
		t.Errorf("%q", l)
	}
	if n, _ := w.Count(t.Context()); n != 0 || len(w.Current(t.Context())) != 0 {
		t.Errorf("%d waits after the end", n)
	}
}

// A job in which things move, however slowly, is no stall.
func TestAHealthySlowJobIsNotTold(t *testing.T) {
	w, s := watch(time.Minute)
	g := w.Gate()
	for range 50 {
		g.Enter(time.Now())
		for range 3 { // one wait, in which answers come one by one
			g.back(50 * time.Second)
			if g.Due() {
				t.Fatal("due")
			}
			w.look(t.Context())
			g.Moved()
		}
		g.Leave()
		g.back(time.Hour) // computing
		w.look(t.Context())
	}
	end := w.Begin(Barrier, "the other workers", "to come", nil)
	end()
	if w.look(t.Context()); len(s.all()) != 0 {
		t.Errorf("%q", s.all())
	}
}

func TestAWaitWithinAnother(t *testing.T) {
	w, s := watch(time.Minute)
	g := w.Gate()
	g.Enter(time.Now())
	g.back(2 * time.Minute)
	g.Enter(time.Now()) // part of the first
	g.Describe(Wait{On: "server 0", Kind: Credit}, nil)
	w.look(t.Context())
	g.Leave()
	w.look(t.Context())
	if l := s.all(); len(l) != 1 || l[0] != "stall: worker 0 waits for server 0 since 120 s: no credit" {
		t.Errorf("%q", l)
	}
	g.Leave()
	g.Close()
	if w.look(t.Context()); len(s.all()) != 2 || len(w.gates) != 0 {
		t.Errorf("%q, %d gates", s.all(), len(w.gates))
	}
}

// An owner that is stuck in a call cannot describe its wait; it is told all the same.
func TestAnOwnerThatDoesNotWake(t *testing.T) {
	w, s := watch(time.Minute)
	g := w.Gate()
	g.Enter(time.Now())
	g.back(3 * time.Minute)
	w.look(t.Context())
	if l := s.all(); len(l) != 1 || !strings.Contains(l[0], "worker 0 since 180 s: no completion (inside a call of the transport)") {
		t.Errorf("%q", l)
	}
}

// Where it is always the same that is waited for nobody needs to wake.
func TestAGateForOneThing(t *testing.T) {
	w, s := watch(time.Minute)
	g := w.GateFor(Disk, "its input", "the next batch")
	g.Enter(time.Now())
	g.back(61 * time.Second)
	if w.look(t.Context()); g.Due() {
		t.Error("it is to be described")
	}
	if l := s.all(); len(l) != 1 || l[0] != "stall: worker 0 waits for its input since 61 s: disk (the next batch)" {
		t.Errorf("%q", l)
	}
	if g.Leave(); (*Watch)(nil).GateFor(Disk, "", "") != nil {
		t.Error("a gate of nobody")
	}
}

func TestSlowCallsAndSources(t *testing.T) {
	w, s := watch(time.Minute)
	end := w.Begin(Coordinator, "the coordinator", "put done", func(ctx context.Context) []Wait {
		<-ctx.Done() // it does not answer
		return []Wait{{Who: "the coordinator", Kind: Silent}}
	})
	w.cfg.AskWithin = time.Millisecond
	for c := range w.slow {
		c.since = c.since.Add(-90 * time.Second)
	}
	w.From(func(_ context.Context, after time.Duration) []Wait {
		if after != time.Minute {
			t.Errorf("after %v", after)
		}
		return []Wait{{Who: "server 0 lane 1", On: "its disks", Kind: Disk, Seconds: 75}, {Who: "server 0 lane 2", Kind: Busy, Seconds: 3}}
	})
	w.look(t.Context())
	w.look(t.Context())
	want := []string{
		"stall: worker 0 waits for the coordinator since 90 s: coordinator (put done); the coordinator: no answer",
		"stall: server 0 lane 1 waits for its disks since 75 s: disk",
	}
	if l := s.all(); !slices.Equal(l, want) {
		t.Errorf("%q\nwant %q", l, want)
	}
	end()
	if now := w.Current(t.Context()); len(now) != 1 || now[0].Kind != Disk {
		t.Errorf("%+v", now)
	}
}

func TestNobodyWantsToKnow(t *testing.T) {
	w := New(Config{})
	if w != nil {
		t.Fatal("a watch without a limit")
	}
	g := w.Gate()
	g.Enter(time.Now())
	g.Moved()
	if g.Due() {
		t.Error("due")
	}
	g.Leave()
	g.Close()
	w.Begin(Disk, "", "", nil)()
	w.From(nil)
	w.Run(t.Context())
	if n, _ := w.Count(t.Context()); n != 0 || w.Current(t.Context()) != nil {
		t.Error("waits of nobody")
	}
}

func TestAGateCostsNoMemory(t *testing.T) {
	w, _ := watch(time.Minute)
	g := w.Gate()
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { g.Enter(now); g.Moved(); g.Due(); g.Leave() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRunTells(t *testing.T) {
	told := make(chan string, 8)
	w := New(Config{Rank: "server 3", After: 40 * time.Millisecond, Say: func(line string) {
		select {
		case told <- line:
		default:
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	end := w.Begin(Checkpoint, "server 1", "its part", nil)
	if line := <-told; !strings.HasPrefix(line, "stall: server 3 waits for server 1 since ") {
		t.Error(line)
	}
	end()
	for line := range told {
		if strings.HasPrefix(line, "stall over: ") {
			break
		}
	}
	cancel()
	running.Wait()
}

// What peers say is bounded on a line.
func TestString(t *testing.T) {
	deep := Wait{Who: "a", Kind: Busy}
	for i := range 10 {
		deep = Wait{Who: fmt.Sprint(i), Kind: Busy, Because: []Wait{deep}}
	}
	if s := deep.String(); strings.Count(s, ":") != maxDepth+1 {
		t.Error(s)
	}
	wide := Wait{Who: "w", Kind: Clock, Because: make([]Wait, 9)}
	if s := wide.String(); !strings.HasSuffix(s, "; and 5 more") {
		t.Error(s)
	}
	if l := List([]string{"a", "b", "c", "d", "e", "f"}); l != "a, b, c, d and 2 more" {
		t.Error(l)
	}
}
