package span

import (
	"math"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// line is a worker in virtual time whose computing and whose link work beside each other,
// one step apart: what is pushed in a step is on the link during the next one.
type line struct {
	compute float64 // seconds of a step
	rows    float64 // of a step, as seconds on the link
	again   float64 // share of a step's rows that the steps before it had, too
	jitter  float64

	now, link float64
	kept      int
	sent      float64
}

// seconds is what so many steps' rows take together: each step adds those that are new.
func (l *line) seconds(steps int) float64 {
	if steps == 0 {
		return 0
	}
	return l.rows * (1 + float64(steps-1)*(1-l.again))
}

// run plays steps and returns the time of one, of the second half.
func (l *line) run(r *rand.Rand, s *Span, steps int) float64 {
	half := 0.
	for i := range steps {
		if i == steps/2 {
			half = l.now
		}
		l.now += l.compute * math.Exp(r.NormFloat64()*l.jitter)
		waiting := l.link > l.now
		l.now = max(l.now, l.link) // room for one push
		l.kept++
		if s.Next(l.now, waiting) {
			took := l.seconds(l.kept)
			l.link = l.now + took
			l.sent += took
			l.kept = 0
		}
		if l.kept >= Most {
			panic("kept for too long")
		}
	}
	return (l.now - half) / float64(steps-steps/2)
}

// TestSettles: where the link is the bottleneck steps become about as short as with the
// best span, and where it is not the span stays at 1 and costs nothing.
func TestSettles(t *testing.T) {
	r := seedtest.Fixed(t, 11)
	const steps = 20_000
	for range 40 {
		l := line{compute: 1, rows: r.Float64() * 4, again: r.Float64(), jitter: .1 * r.Float64()}
		best := math.Inf(1)
		for k := 1; k <= Most; k *= 2 {
			own := l
			best = min(best, own.run(r, New(k, true), steps))
		}
		alone := l
		plain := alone.run(r, New(1, true), steps)
		own, s := l, New(Most, false)
		got := own.run(r, s, steps)
		if got > 1.05*best || got > 1.02*plain {
			t.Errorf("%+v: %.3f s a step with span %d, the best is %.3f, alone %.3f", l, got, s.Taken(), best, plain)
		}
		if l.rows < .8 && s.Taken() > 1 {
			t.Errorf("%+v: nothing waits for the link, and the span is %d", l, s.Taken())
		}
	}
}

// TestKeepsLess: however steps take, less than a span of them is kept, and never more
// than asked for.
func TestKeepsLess(t *testing.T) {
	r := seedtest.Fixed(t, 12)
	for most := 1; most <= Most; most++ {
		s, kept, now := New(most, most%2 == 0), 0, 0.
		for range 5000 {
			now += r.ExpFloat64()
			kept++
			if s.Next(now, r.IntN(2) > 0) {
				kept = 0
			}
			if kept >= most && most > 1 || most == 1 && kept > 0 {
				t.Fatalf("most %d: %d steps are kept with span %d", most, kept, s.Now())
			}
		}
	}
}

// TestDue: what was kept before is not kept for another span.
func TestDue(t *testing.T) {
	for most := 1; most <= Most; most++ {
		for _, fixed := range []bool{false, true} {
			s := New(most, fixed)
			if s.Due(); !s.Next(1, false) {
				t.Errorf("most %d, fixed %v: what is due is kept", most, fixed)
			}
			if send, want := s.Next(2, false), !fixed || most == 1; send != want {
				t.Errorf("most %d, fixed %v: the step behind is sent: %v, want %v", most, fixed, send, want)
			}
		}
	}
}

// TestFollows: when the link becomes the bottleneck, and is no more, the span follows.
func TestFollows(t *testing.T) {
	r := seedtest.Fixed(t, 13)
	s := New(Most, false)
	l := line{compute: 1, rows: .2, again: .8, jitter: .05}
	l.run(r, s, 4000)
	if s.Taken() != 1 {
		t.Errorf("span %d before the link is slow", s.Taken())
	}
	l.rows = 4
	l.run(r, s, 20_000)
	if s.Taken() < 4 {
		t.Errorf("span %d with a slow link", s.Taken())
	}
	l.rows = .1
	l.run(r, s, 40_000)
	if s.Taken() != 1 {
		t.Errorf("span %d when the link is fast again", s.Taken())
	}
}

// TestGoOn: a number that another has found is tried against its half and its double like one's
// own, and steps that were seen before count for neither.
func TestGoOn(t *testing.T) {
	r := seedtest.Fixed(t, 3)
	for _, l := range []line{{compute: 1, rows: 3, again: .9}, {compute: 1, rows: .1, again: .9}} {
		s := New(4, false)
		l.run(r, s, 50)
		if s.GoOn(4); s.Now() != 4 || s.Taken() != 4 {
			t.Fatalf("it merges %d steps, and has found %d", s.Now(), s.Taken())
		}
		want := 4
		if l.rows < 1 {
			want = 1
		}
		if l.run(r, s, 2000); s.Taken() != want {
			t.Errorf("rows of %g: it has found %d, want %d", l.rows, s.Taken(), want)
		}
	}
}

// TestWhole: all numbers that are taken divide it.
func TestWhole(t *testing.T) {
	for most, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 4, 7: 4, 8: 8, 99: 8} {
		if got := Whole(most); got != want {
			t.Errorf("of %d: %d, want %d", most, got, want)
		}
		r, s := seedtest.Fixed(t, 9), New(most, false)
		l := line{compute: 1, rows: 4, again: .9}
		for range 500 {
			if l.run(r, s, 1); want%s.Now() != 0 {
				t.Fatalf("of %d: it has taken %d", most, s.Now())
			}
		}
	}
}
