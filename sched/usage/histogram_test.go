package usage

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Every duration is in the first bucket that does not end before it.
func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	durations := []time.Duration{-1, 0, 1, 499, 500, 501, 999, 1000, 1001, time.Microsecond, time.Hour, math.MaxInt64}
	for range 2000 {
		durations = append(durations, time.Duration(math.Exp(rng.Float64()*25)))
	}
	var h Histogram
	var want Counts
	for _, d := range durations {
		h.Add(d)
		at := 0
		for end, ok := End(at); ok && d > end; end, ok = End(at) {
			at++
		}
		want.Buckets[at]++
		want.Nanos += uint64(max(d, 0))
	}
	if got := h.Read(); got != want || got.N() != uint64(len(durations)) {
		t.Errorf("counts %v, want %v", got, want)
	}
	if end, _ := End(Buckets - 2); end < 8*time.Second || end > 20*time.Second {
		t.Errorf("the last bucket that ends does so at %v", end)
	}
}

func TestQuantile(t *testing.T) {
	var h Histogram
	if c := h.Read(); c.Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	for range 90 {
		h.Add(3 * time.Microsecond)
	}
	for range 10 {
		h.Add(3 * time.Millisecond)
	}
	c := h.Read()
	for _, q := range []struct {
		q    float64
		want time.Duration
	}{{0, 4 * time.Microsecond}, {0.5, 4 * time.Microsecond}, {0.89, 4 * time.Microsecond}, {0.95, 4096 * time.Microsecond}, {1, 4096 * time.Microsecond}} {
		if got := c.Quantile(q.q); got != q.want {
			t.Errorf("quantile %g is %v, want %v", q.q, got, q.want)
		}
	}
	var sum Counts
	sum.Add(c)
	sum.Add(c)
	if sum.N() != 200 || sum.Nanos != 2*c.Nanos {
		t.Errorf("twice the counts: %+v", sum)
	}
	if n := testing.AllocsPerRun(100, func() { h.Add(time.Second) }); n != 0 {
		t.Errorf("%g allocations a duration", n)
	}
}
