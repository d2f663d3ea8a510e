package settle

import (
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// world is a worker that computes, and a link that answers after a latency and moves
// one step's bytes at a time: a step is pulled when the one that is depth before it
// begins to be computed.
type world struct {
	compute, latency, wire float64 // seconds of a step
	jitter                 float64
	r                      *rand.Rand
}

// run makes steps with what the policy says, and reports windows' mean depth and the
// time of a step over the last half.
func (w world) run(d *Depth, steps int) (depth, each float64) {
	vary := func(x float64) float64 { return x * (1 + w.jitter*(2*w.r.Float64()-1)) }
	var now, linkFree, half float64
	var here []float64 // by step: when its values come
	pull := func() {
		linkFree = max(now, linkFree) + vary(w.wire)
		here = append(here, linkFree+vary(w.latency))
	}
	var win Window
	began, sum := 0.0, 0
	for s := range steps {
		for len(here) <= s+d.Now() {
			pull()
		}
		if here[s] > now {
			win.WaitSeconds += here[s] - now
			now = here[s]
		}
		now += vary(w.compute)
		if win.Steps++; win.Steps == WindowSteps {
			win.Seconds = now - began
			d.Step(win)
			win, began = Window{}, now
		}
		if s == steps/2 {
			half = now
		}
		if s > steps/2 {
			sum += d.Now()
		}
	}
	return float64(sum) / float64(steps-steps/2-1), (now - half) / float64(steps-steps/2-1)
}

// TestSettles: the depth grows to hide latency, and not where the link or the computing
// is the bound, whatever the jitter.
func TestSettles(t *testing.T) {
	for _, c := range []struct {
		name                   string
		compute, latency, wire float64
		least, most            float64 // of the mean depth
		within                 float64 // of the slowest stage, the time of a step
	}{
		{"hidden by one", 10e-3, 5e-3, 1e-3, 1, 1.2, 1.05},
		{"three computes of latency", 2e-3, 7e-3, .1e-3, 2.9, 4, 1.25},
		{"a slow link", 2e-3, .05e-3, 5e-3, 1, 1.8, 1.05},
		{"slow link and latency", 2e-3, 9e-3, 4e-3, 1.8, 4, 1.25},
	} {
		for _, jitter := range []float64{0, .1, .3} {
			w := world{c.compute, c.latency, c.wire, jitter, seedtest.Rand(t)}
			d := NewDepth(1, 4)
			depth, each := w.run(d, 40_000)
			if depth < c.least || depth > c.most+5*jitter { // chance favours a depth for a while
				t.Errorf("%s, jitter %g: depth %.2f on average, want %g to %g", c.name, jitter, depth, c.least, c.most)
			}
			if limit := max(c.compute, c.wire) * c.within; each > limit {
				t.Errorf("%s, jitter %g: a step takes %.2f ms, want at most %.2f", c.name, jitter, 1e3*each, 1e3*limit)
			}
		}
	}
}

// TestSettlesSoon: what is plain to see takes few windows, whichever way.
func TestSettlesSoon(t *testing.T) {
	for _, jitter := range []float64{0, .1, .3} {
		d := NewDepth(1, 4)
		far := world{2e-3, 7e-3, .1e-3, jitter, seedtest.Rand(t)}
		far.run(d, 40*WindowSteps)
		if d.Now() < 3 {
			t.Errorf("jitter %g: %d ahead after 40 windows where values need three steps", jitter, d.Now())
		}
	}
	for _, worse := range []float64{.6, 1.4} {
		r := seedtest.Rand(t)
		d, windows, tried := NewDepth(1, 2), 0, 0
		for !d.Trying() {
			d.Step(Window{Steps: WindowSteps, Seconds: 1 + .1*r.Float64(), WaitSeconds: .05})
			windows++
		}
		for d.Trying() {
			d.Step(Window{Steps: WindowSteps, Seconds: worse + .1*r.Float64(), WaitSeconds: .05})
			tried++
		}
		if windows < judged || tried > early+2 || d.Now() == 2 != (worse < 1) {
			t.Errorf("steps of %g times what they took: a trial after %d windows, of %d, then %d ahead", worse, windows, tried, d.Now())
		}
	}
}

// TestStaysWithin: whatever is measured, the depth stays within its bounds, and one
// that has no choice never moves.
func TestStaysWithin(t *testing.T) {
	r := seedtest.Rand(t)
	d, fixed := NewDepth(1, 3), NewDepth(2, 2)
	for range 20_000 {
		w := Window{Steps: r.IntN(40), Seconds: r.Float64(), WaitSeconds: r.Float64()}
		d.Step(w)
		fixed.Step(w)
		if d.Now() < 1 || d.Now() > d.Most() || fixed.Now() != 2 {
			t.Fatalf("depths %d and %d", d.Now(), fixed.Now())
		}
	}
}

// TestGoesBack: what made depth worth while may end.
func TestGoesBack(t *testing.T) {
	r := seedtest.Rand(t)
	d := NewDepth(1, 4)
	far := world{2e-3, 7e-3, .1e-3, .1, r}
	if depth, _ := far.run(d, 20_000); depth < 3 {
		t.Fatalf("depth %.2f far away", depth)
	}
	near := world{2e-3, .2e-3, .1e-3, .1, r}
	if depth, _ := near.run(d, 80_000); depth > 1.3 {
		t.Errorf("depth %.2f on average after the latency has gone", depth)
	}
}
