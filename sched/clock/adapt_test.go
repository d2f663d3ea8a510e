package clock

import (
	"math"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// race is workers of log-normal steps in virtual time, at a lane whose bound an Adapt
// moves; a nil one leaves it at most.
type race struct {
	clock   *Clock
	adapt   *Adapt
	most    int
	jitter  float64
	history []Event
	bounds  []int // after each step of the slowest
	end     float64
}

func (s *race) bound() int {
	if s.adapt == nil {
		return s.most
	}
	return s.adapt.Bound()
}

// run plays so many steps of each worker. A worker pulls, computes, pushes and pulls
// again; one whose pull may not be answered stands still.
func (s *race) run(r *rand.Rand, workers int, steps uint64) {
	s.clock = New(workers, s.most)
	computes := make([]float64, workers) // until when; infinite: it stands
	stood := make([]float64, workers)
	now := 0.0
	pull := func(w int) bool {
		step := s.clock.At(w)
		if step == steps {
			s.clock.Leave(w)
			s.history = append(s.history, Event{Kind: Left, Worker: w})
			computes[w] = math.Inf(1)
			return true
		}
		if !s.clock.Allows(step, s.bound()) {
			computes[w] = math.Inf(1)
			return false
		}
		s.history = append(s.history, Event{Kind: Answered, Worker: w, Step: step})
		computes[w] = now + math.Exp(s.jitter*r.NormFloat64())
		return true
	}
	waits := make([]bool, workers)
	for w := range workers {
		waits[w] = !pull(w)
	}
	for seq := uint64(1); s.clock.Min() != None; seq++ {
		next := 0
		for w, at := range computes {
			if at < computes[next] {
				next = w
			}
		}
		now = computes[next]
		s.history = append(s.history, Event{Applied, next, s.clock.At(next), seq})
		_ = s.clock.Tick(next, s.clock.At(next))
		waits[next], stood[next] = true, now
		for again := true; again; {
			again = false
			if s.adapt != nil {
				again = s.adapt.Look(now, s.clock.Min())
				s.bounds = append(s.bounds, s.adapt.Bound())
			}
			for w := range workers {
				if waits[w] && pull(w) {
					waits[w], again = false, true
					if s.adapt != nil {
						s.adapt.Waited(now - stood[w])
					}
				}
			}
		}
	}
	s.end = now
}

// TestAdaptSettles: where steps vary the bound rises until nobody waits much, and where
// they do not it stays at the least; and no read is ever staler than the most.
func TestAdaptSettles(t *testing.T) {
	seed := seedtest.Seed(t)
	const workers, steps = 4, 3000
	mode := Mode{0, 12}
	play := func(jitter float64, most int, adapt *Adapt) *race {
		s := &race{adapt: adapt, most: most, jitter: jitter}
		s.run(rand.New(rand.NewPCG(seed, 1)), workers, steps)
		return s
	}
	moved := play(.5, mode.Most, NewAdapt(mode, workers))
	loose, strict := play(.5, mode.Most, nil), play(.5, mode.Least, nil)
	t.Logf("jitter .5: %.0f adapted (bound %d), %.0f at %d, %.0f at %d", moved.end, moved.bound(), loose.end, mode.Most, strict.end, mode.Least)
	if moved.end > 1.06*loose.end {
		t.Errorf("%.0f with a bound that moves, %.0f where it is %d", moved.end, loose.end, mode.Most)
	}
	if strict.end < 1.3*loose.end {
		t.Errorf("waiting costs nothing here: %.0f and %.0f", strict.end, loose.end)
	}
	for _, b := range moved.bounds {
		if b < mode.Least || b > mode.Most {
			t.Fatalf("a bound of %d, want %s", b, mode.Steps())
		}
	}
	if even := play(.001, mode.Most, NewAdapt(mode, workers)); even.bound() != mode.Least {
		t.Errorf("a bound of %d where all workers are alike", even.bound())
	}
	short := &race{adapt: NewAdapt(Mode{1, 5}, 3), most: 5, jitter: .8}
	short.run(rand.New(rand.NewPCG(seed, 2)), 3, 150)
	if up, _ := short.adapt.Changes(); up == 0 {
		t.Error("the bound never rose")
	}
	if err := Check(short.history, 3, 5); err != nil {
		t.Error(err)
	}
}

// TestAdaptGoesDown: when workers that differed are alike, what is stale for nothing is
// made fresher, and the attempts that fail become rare.
func TestAdaptGoesDown(t *testing.T) {
	a := NewAdapt(Mode{1, 6}, 2)
	now, step := 0.0, uint64(0)
	play := func(windows int, waits func(bound int) float64) {
		for range windows {
			a.Waited(waits(a.Bound()) * 2 * window)
			now, step = now+window, step+window
			a.Look(now, step)
		}
	}
	play(20, func(int) float64 { return .1 })
	if a.Bound() != 6 {
		t.Fatalf("a bound of %d after waits without end", a.Bound())
	}
	play(60, func(int) float64 { return 0 })
	if a.Bound() != 1 {
		t.Fatalf("a bound of %d where nobody waits", a.Bound())
	}
	_, before := a.Changes()
	play(2000, func(bound int) float64 {
		if bound < 4 {
			return .1
		}
		return 0
	})
	if _, down := a.Changes(); down-before > 30 || a.Bound() < 3 {
		t.Errorf("went down %d times in 2000 windows, to %d: what does not hold is tried again and again", down-before, a.Bound())
	}
}

func TestModes(t *testing.T) {
	for _, s := range []string{"bsp", "asp", "ssp:3", "ssp:0-8", "ssp:2-3"} {
		m, err := ParseMode(s)
		if err != nil || m.String() != s || m.Check() != nil {
			t.Errorf("%q is read as %v: %v", s, m, err)
		}
	}
	if m, err := ParseMode("ssp:0"); err != nil || !m.BSP() {
		t.Errorf("ssp:0 is %v: %v", m, err)
	}
	for _, s := range []string{"", "ssp", "ssp:", "ssp:-1", "ssp:3-1", "ssp:3-3", "ssp:1-2-3", "ssp:9999999999", "BSP", "ssp:1.5"} {
		if m, err := ParseMode(s); err == nil {
			t.Errorf("%q is taken as %v", s, m)
		}
	}
	for _, m := range []Mode{{-1, 0}, {2, 1}, {-2, -2}, {0, 1 << 30}} {
		if m.Check() == nil {
			t.Errorf("%+v is taken", m)
		}
	}
}
