package densesplit

import (
	"math"
	"testing"

	"psrt/csrc/seedtest"
)

// The choice is held against every number of lanes, added up anew.
func TestChooseIsTheBest(t *testing.T) {
	rng := seedtest.Rand(t)
	for range 2000 {
		lanes := make([]int, 1+rng.IntN(20))
		total := 0
		for i := range lanes {
			lanes[i] = 1 + rng.IntN(1000)
			total += lanes[i]
		}
		m := Measured{Servers: rng.Float64() + 1e-6, Reduce: rng.Float64() + 1e-6}
		got, err := Choose(m, lanes)
		if err != nil {
			t.Fatal(err)
		}
		seconds := func(k int) float64 {
			reduced := 0
			for _, n := range lanes[:k] {
				reduced += n
			}
			return math.Max(m.Reduce*float64(reduced)/float64(total), m.Servers*float64(total-reduced)/float64(total))
		}
		chosen := 0
		for i, r := range got.Reduced {
			if r {
				chosen++
				if chosen != i+1 {
					t.Fatalf("%v of %v are not the first lanes", got.Reduced, lanes)
				}
			}
		}
		for k := range len(lanes) + 1 {
			if seconds(k) < seconds(chosen)*(1-1e-9) {
				t.Fatalf("%+v over %v: %d lanes take %v s, %d would take %v", m, lanes, chosen, seconds(chosen), k, seconds(k))
			}
		}
		if math.Abs(got.Seconds-seconds(chosen)) > 1e-9 {
			t.Fatalf("%v s were promised, %v s are right", got.Seconds, seconds(chosen))
		}
	}
}

// With many equal lanes both ways end together.
func TestChooseBalances(t *testing.T) {
	lanes := make([]int, 1000)
	for i := range lanes {
		lanes[i] = 7
	}
	for _, c := range []struct{ servers, reduce, share float64 }{{1, 1, .5}, {3, 1, .75}, {1, 3, .25}, {1e-3, 1, .001}} {
		got, err := Choose(Measured{c.servers, c.reduce}, lanes)
		if err != nil || math.Abs(got.Share-c.share) > .0011 {
			t.Errorf("%+v: %v, %v", c, got.Share, err)
		}
	}
}

func TestChooseRefuses(t *testing.T) {
	for _, c := range []struct {
		m     Measured
		lanes []int
	}{{Measured{0, 1}, []int{1}}, {Measured{1, math.NaN()}, []int{1}}, {Measured{math.Inf(1), 1}, []int{1}}, {Measured{1, 1}, nil}, {Measured{1, 1}, []int{1, 0}}} {
		if got, err := Choose(c.m, c.lanes); err == nil {
			t.Errorf("%+v over %v gives %+v", c.m, c.lanes, got)
		}
	}
}
