package pipe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/pipe/settle"
)

// fake is work whose calls are answered when the test's generator says so, and that
// checks the order of all that is asked of it.
type fake struct {
	t                       *testing.T
	steps, later            int
	next, computed, retired int
	here, gone              map[int]bool
	answer                  func() bool
	failAt                  map[string]int
	mostPulls, mostPushes   int
	compute                 time.Duration
}

var errFake = errors.New("as asked")

func (f *fake) fails(what string, step int) error {
	if at, ok := f.failAt[what]; ok && at == step {
		return fmt.Errorf("%s of %d: %w", what, step, errFake)
	}
	return nil
}

func (f *fake) Next(_ context.Context, wait bool) (int, State, error) {
	if f.next == f.steps {
		return 0, End, nil
	}
	if !wait && !f.answer() {
		f.later++
		return 0, Later, nil
	}
	f.next++
	return f.next - 1, Got, f.fails("next", f.next-1)
}

func (f *fake) Pull(_ context.Context, s int) error {
	f.mostPulls = max(f.mostPulls, s-f.computed)
	return f.fails("pull", s)
}

func (f *fake) Pulled(s int, wait bool) (bool, error) {
	if wait || f.answer() {
		f.here[s] = true
	}
	return f.here[s], f.fails("pulled", s)
}

func (f *fake) Compute(s int, tick func() error) error {
	if s != f.computed || !f.here[s] {
		f.t.Errorf("step %d is computed after %d others, its values here: %v", s, f.computed, f.here[s])
	}
	err := errors.Join(tick(), tick())
	time.Sleep(f.compute)
	f.computed++
	return errors.Join(err, f.fails("compute", s))
}

func (f *fake) Push(s int) error {
	if s != f.computed-1 {
		f.t.Errorf("step %d is pushed after %d was computed", s, f.computed-1)
	}
	f.mostPushes = max(f.mostPushes, f.computed-f.retired)
	return f.fails("push", s)
}

func (f *fake) Pushed(s int, wait bool) (bool, error) {
	if wait || f.answer() {
		f.gone[s] = true
	}
	return f.gone[s], f.fails("pushed", s)
}

func (f *fake) Retire(s int) error {
	if s != f.retired || !f.gone[s] {
		f.t.Errorf("step %d is retired after %d others, answered: %v", s, f.retired, f.gone[s])
	}
	f.retired++
	return nil
}

func (f *fake) Poll() error { return f.fails("poll", f.computed) }

func newFake(t *testing.T, steps int) *fake {
	r := seedtest.Rand(t)
	return &fake{t: t, steps: steps, here: map[int]bool{}, gone: map[int]bool{}, answer: func() bool { return r.IntN(3) == 0 }}
}

// Every step goes its way in order, and no more are under way than the line allows.
func TestLine(t *testing.T) {
	for depth := range 4 {
		for _, pushes := range []int{0, 1, 3} {
			f := newFake(t, 200)
			l := Line{Depth: settle.NewDepth(depth, depth), Pushes: pushes, Meter: &Meter{}, Trace: &Trace{Skip: 10, Steps: 5}}
			if err := Run(t.Context(), &l, f); err != nil {
				t.Fatal(err)
			}
			if f.retired != 200 || f.computed != 200 {
				t.Errorf("depth %d: %d steps computed, %d retired, want 200", depth, f.computed, f.retired)
			}
			if f.mostPulls > depth || f.mostPushes > pushes+1 {
				t.Errorf("depth %d, pushes %d: %d steps pulled ahead, %d pushes under way", depth, pushes, f.mostPulls, f.mostPushes)
			}
			if s := l.Meter.Summary(Stage{Name: "read"}); s.Steps != 200 || len(s.Stages) != 4 || s.Stages[1].Mean <= 0 || s.Stages[3].Mean <= 0 {
				t.Errorf("summary %+v", s)
			}
			for _, s := range l.Trace.Spans() {
				if s.Step != 0 && (s.Step <= 10 || s.Step > 15) {
					t.Errorf("step %d is in the trace, want 11 to 15", s.Step)
				}
			}
		}
	}
}

// An error ends the line, once all pushes that were posted before are answered.
func TestLineFails(t *testing.T) {
	for _, what := range []string{"next", "pull", "pulled", "compute", "push", "pushed", "poll"} {
		f := newFake(t, 50)
		f.failAt = map[string]int{what: 20}
		l := Line{Depth: settle.NewDepth(2, 2), Pushes: 1, Meter: &Meter{}}
		err := Run(t.Context(), &l, f)
		if !errors.Is(err, errFake) {
			t.Errorf("%s: %v", what, err)
		}
		if f.computed > 24 || f.retired < 17 || f.computed-f.retired > 1 {
			t.Errorf("%s: %d steps computed, %d retired", what, f.computed, f.retired)
		}
	}
}

// The owner of the threads hears how many there are, first and when that is settled anew:
// here where reading needs fewer, for nothing is ever waited for.
func TestLineSettlesThreads(t *testing.T) {
	f := newFake(t, 1_000_000)
	f.answer = func() bool { return true }
	var said [][2]int
	l := Line{Depth: settle.NewDepth(1, 1), Pushes: 1, Meter: &Meter{}, Threads: settle.NewThreads(4, 2)}
	l.Share = func(read, compute int) {
		if said = append(said, [2]int{read, compute}); len(said) == 2 {
			f.steps = f.next
		}
	}
	f.compute = time.Millisecond // long enough that a pause of the machine is not taken for waiting
	if err := Run(t.Context(), &l, f); err != nil {
		t.Fatal(err)
	}
	if len(said) != 2 || said[0] != [2]int{4, 2} || said[1] != [2]int{3, 2} {
		t.Fatalf("%d steps, told %v, want {4 2} and {3 2}", f.computed, said)
	}
	if s := l.Meter.Summary(Stage{}); s.ReadThreads != 3 || s.ComputeThreads != 2 {
		t.Errorf("summary %+v", s)
	}
}

// link is work whose pushes are answered long after they were posted.
type link struct {
	steps, next int
	compute     time.Duration
	push        time.Duration
	answer      []time.Time // of the pushes, by step
}

func (l *link) Next(context.Context, bool) (int, State, error) {
	if l.next == l.steps {
		return 0, End, nil
	}
	l.next++
	return l.next - 1, Got, nil
}

func (l *link) Pull(context.Context, int) error { return nil }
func (l *link) Pulled(int, bool) (bool, error)  { return true, nil }
func (l *link) Compute(int, func() error) error { time.Sleep(l.compute); return nil }
func (l *link) Retire(int) error                { return nil }
func (l *link) Poll() error                     { return nil }
func (l *link) Push(int) error                  { l.answer = append(l.answer, time.Now().Add(l.push)); return nil }
func (l *link) Pushed(s int, wait bool) (bool, error) {
	if wait {
		time.Sleep(time.Until(l.answer[s]))
	}
	return !time.Now().Before(l.answer[s]), nil
}

// A push that is under way for longer than a step holds the line up where one may be
// unanswered (two steps take a step and a push), and does not where two may. In virtual time.
func TestLinePushes(t *testing.T) {
	const compute, push = 5 * time.Millisecond, 9 * time.Millisecond
	for pushes, want := range map[int]time.Duration{0: compute + push, 1: (compute + push) / 2, 2: compute} {
		synctest.Test(t, func(t *testing.T) {
			w := &link{steps: 1000, compute: compute, push: push}
			l := Line{Depth: settle.NewDepth(1, 1), Pushes: pushes, Meter: &Meter{}}
			began := time.Now()
			if err := Run(t.Context(), &l, w); err != nil {
				t.Fatal(err)
			}
			if each := time.Since(began) / 1000; each < want || each > want+want/50 {
				t.Errorf("%d pushes: a step takes %v, want %v", pushes, each, want)
			}
		})
	}
}

// Several workers' meters come together as shares.
func TestMerge(t *testing.T) {
	one := Summary{Steps: 10, Depth: 1, QueueSeconds: 2, WaitValues: 3, Stages: []Stage{{Name: "read", Seconds: 5, Mean: .5, P95: 1}}}
	two := Summary{Steps: 12, Depth: 2, QueueSeconds: 4, WaitValues: 1, Stages: []Stage{{Name: "read", Seconds: 7, Mean: .7, P95: 3}}}
	got := Merge([]Summary{one, two}, 10)
	if got.Steps != 12 || got.Depth != 2 || got.QueueSeconds != 3 || got.WaitValues != .2 {
		t.Errorf("%+v", got)
	}
	if s := got.Stages[0]; s.Busy != .6 || s.P95 != 3 || s.Mean != .6 {
		t.Errorf("%+v", s)
	}
	if got := Merge(nil, 1); got.Steps != 0 {
		t.Errorf("nothing gives %+v", got)
	}
}

// The trace is what viewers of the Trace Event Format read: every event has its phase,
// and what may overlap begins and ends by its number.
func TestWriteTrace(t *testing.T) {
	tr := &Trace{Steps: 4}
	at := time.UnixMicro(1_000_000)
	n := tr.number()
	tr.span("pull", lanePull, n, at, at.Add(30*time.Microsecond))
	tr.span("compute", laneCompute, n, at.Add(30*time.Microsecond), at.Add(50*time.Microsecond))
	tr.Read("read", at, at.Add(time.Millisecond))
	var none *Trace
	none.span("x", laneRead, none.number(), at, at)
	var out bytes.Buffer
	if err := WriteTrace(&out, [][]Span{tr.Spans(), none.Spans()}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  int64
			Pid, Tid int
			ID       uint64
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range got.TraceEvents {
		count[e.Ph]++
		if e.Ph == "e" && (e.Ts != 30 || e.ID != 1) {
			t.Errorf("the pull ends at %d with number %d, want 30 and 1", e.Ts, e.ID)
		}
		if e.Ph == "X" && e.Name == "read" && e.Dur != 1000 {
			t.Errorf("the reading takes %d µs, want 1000", e.Dur)
		}
	}
	if count["M"] != 2*(1+lanes) || count["b"] != 1 || count["e"] != 1 || count["X"] != 2 {
		t.Errorf("phases %v", count)
	}
}

// The sample keeps to its bound, and its figures are those of what it was given.
func TestSample(t *testing.T) {
	var s Sample
	if s.Times() != (Times{}) {
		t.Error("figures of nothing")
	}
	for i := range 3 * sampleMost {
		s.Add(float64(i % 100))
	}
	if got := s.Times(); len(s.kept) != sampleMost || got.Count != 3*sampleMost || got.P50 < 40 || got.P50 > 60 || got.P95 < 90 {
		t.Errorf("%+v of %d", got, len(s.kept))
	}
}
