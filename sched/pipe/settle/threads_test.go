package settle

import (
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// host is a worker's share of a machine: two stages whose threads share cores, reading a
// few steps ahead of computing, and a link. Threads beyond the cores cost: who waits for
// several threads waits for the one that got no core.
type host struct {
	cores         int
	read, compute float64 // core-seconds of a step
	leaves        int     // computing cannot be cut into more
	link          float64 // seconds of a step
	jitter        float64
	r             *rand.Rand
}

// crowd is what a runnable thread for each core beyond the first costs all of them.
const crowd = .02

// step is the time of one where so many threads read and compute: the stages run beside
// each other, and give each other what they leave of the cores.
func (h host) step(read, compute int) (w Window) {
	vary := func(x float64) float64 { return x * (1 + h.jitter*(2*h.r.Float64()-1)) }
	compute = min(compute, h.leaves)
	speed := 1.0
	if over := float64(read+compute) / float64(h.cores); over > 1 {
		speed = 1 / over * (1 - min(.5, crowd*(over-1)))
	}
	r, c, l := vary(h.read), vary(h.compute), vary(h.link)
	// While both run each has its threads' share; when one is done the other has all that
	// its own threads can use.
	alone := func(n int) float64 { return float64(min(n, h.cores)) }
	tr, tc := r/(float64(read)*speed), c/(float64(compute)*speed)
	both := min(tr, tc)
	rest := max((r-both*float64(read)*speed)/alone(read), (c-both*float64(compute)*speed)/alone(compute))
	busy := both + rest
	computing := tc
	if tc > tr {
		computing = busy
	}
	w = Window{Steps: 1, Seconds: max(busy, l), ComputeSeconds: computing}
	if l > busy {
		w.WaitSeconds = l - computing
	} else {
		w.InputSeconds = busy - computing
	}
	return w
}

// run makes steps with what the policy says; each is the time of one over the last half.
func (h host) run(t *Threads, steps int) (each float64) {
	var w Window
	var sum float64
	for s := range steps {
		one := h.step(t.Now(Reading), t.Now(Computing))
		if s >= steps/2 {
			sum += one.Seconds
		}
		if w.add(one); w.Steps == WindowSteps {
			t.Step(w)
			w = Window{}
		}
	}
	return sum / float64(steps-steps/2)
}

// best tries every choice.
func (h host) best(most int) (each float64, read, compute int) {
	h.jitter = 0
	for r := 1; r <= most; r++ {
		for c := 1; c <= most; c++ {
			if w := h.step(r, c); each == 0 || w.Seconds < each {
				each, read, compute = w.Seconds, r, c
			}
		}
	}
	return each, read, compute
}

// TestThreadsSettle: whatever the stages cost and whatever the jitter, the time of a step
// comes near to that of the best choice of all, or is no worse than it was.
func TestThreadsSettle(t *testing.T) {
	r := seedtest.Rand(t)
	for i := range 20 {
		h := host{cores: 1 + r.IntN(32), read: 1e-3 * (.2 + 20*r.Float64()), compute: 1e-3 * (.2 + 20*r.Float64()), leaves: 1 << r.IntN(6), jitter: .1 * float64(i%4), r: r}
		if i%5 == 0 {
			h.link = 4e-3
		}
		p := NewThreads(h.cores, min(h.cores, h.leaves))
		each := h.run(p, 100_000)
		still := h
		still.jitter = 0
		first := still.step(h.cores, min(h.cores, h.leaves)).Seconds
		least, read, compute := h.best(h.cores)
		if limit := max(least*1.12, min(first, least*1.3)) * (1 + h.jitter/4); each > limit {
			t.Errorf("%+v: a step takes %.3f ms with %d and %d threads, began with %.3f, best %.3f with %d and %d", h, 1e3*each, p.Now(Reading), p.Now(Computing), 1e3*first, 1e3*least, read, compute)
		}
	}
}

// TestThreadsFollow: cores go to the slower stage, also when that becomes another.
func TestThreadsFollow(t *testing.T) {
	h := host{cores: 16, read: 2e-3, compute: 40e-3, leaves: 16, jitter: .05, r: seedtest.Rand(t)}
	p := NewThreads(16, 16)
	h.run(p, 60_000)
	if p.Now(Reading) > 6 || p.Now(Computing) < 12 {
		t.Errorf("%d read and %d compute where computing takes twenty times as long", p.Now(Reading), p.Now(Computing))
	}
	h.read, h.compute = h.compute, h.read
	h.run(p, 200_000)
	if p.Now(Reading) < 10 {
		t.Errorf("%d read and %d compute after reading has become twenty times as long", p.Now(Reading), p.Now(Computing))
	}
}

// TestThreadsStayWithin: whatever is measured; and neither tries while the depth does.
func TestThreadsStayWithin(t *testing.T) {
	r := seedtest.Rand(t)
	d, p := NewDepth(1, 3), NewThreads(5, 3)
	for range 50_000 {
		w := Window{Steps: r.IntN(40), Seconds: r.Float64(), WaitSeconds: r.Float64(), InputSeconds: r.Float64(), ComputeSeconds: r.Float64()}
		Step(d, p, w)
		if n := p.Now(Reading); n < 1 || n > 5 || p.Now(Computing) < 1 || p.Now(Computing) > 3 {
			t.Fatalf("%d and %d threads", n, p.Now(Computing))
		}
		if d.Trying() && p.Trying() {
			t.Fatal("both try at once")
		}
	}
}
