package qualify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"
)

// matrix has a figure for every ordered pair of n ranks, perHost on a host.
func matrix(n, perHost int, value func(from, to int) float64) []Sample {
	var list []Sample
	for from := range n {
		for to := range n {
			if from != to {
				list = append(list, Sample{from, to, from / perHost, to / perHost, value(from, to)})
			}
		}
	}
	return list
}

// naive finds the same without sorting and without a shared step: the median
// is a value with as many below as above, or the middle of two such.
func naive(samples []Sample, r Rule) (slow []int, ranks, hosts []Blame) {
	median := func(v []float64) float64 {
		var middle []float64
		for _, x := range v {
			below, above := 0, 0
			for _, y := range v {
				if y < x {
					below++
				}
				if y > x {
					above++
				}
			}
			if 2*below <= len(v) && 2*above <= len(v) {
				middle = append(middle, x)
			}
		}
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, x := range middle {
			lo, hi = math.Min(lo, x), math.Max(hi, x)
		}
		return (lo + hi) / 2
	}
	bad := func(i int) bool {
		s := samples[i]
		var kind, off []float64
		for _, o := range samples {
			if (o.FromHost == o.ToHost) == (s.FromHost == s.ToHost) {
				kind = append(kind, o.Value)
			}
		}
		m := median(kind)
		for _, x := range kind {
			off = append(off, math.Abs(x-m))
		}
		by := s.Value - m
		if r.Higher {
			by = m - s.Value
		}
		far := s.Value > 4*m
		if r.Higher {
			far = s.Value < m/4
		}
		return len(kind) >= 4 && by > r.Least && (far || by > r.MADs*1.4826*median(off) && by > r.Tolerance*m)
	}
	for i := range samples {
		if bad(i) {
			slow = append(slow, i)
		}
	}
	most := func(match func(s Sample) bool) bool {
		of, bad := 0, 0
		for i, s := range samples {
			if match(s) {
				of++
				if slices.Contains(slow, i) {
					bad++
				}
			}
		}
		return bad >= 2 && bad > of-bad
	}
	for who := range 64 {
		r := Blame{who, most(func(s Sample) bool { return s.From == who }), most(func(s Sample) bool { return s.To == who })}
		if r.From || r.To {
			ranks = append(ranks, r)
		}
		h := Blame{who, most(func(s Sample) bool { return s.FromHost == who }), most(func(s Sample) bool { return s.ToHost == who })}
		if h.From || h.To {
			hosts = append(hosts, h)
		}
	}
	return slow, ranks, hosts
}

var (
	times = Rule{MADs: 6, Tolerance: 0.5, Least: 0.5}
	rates = Rule{Higher: true, MADs: 6, Tolerance: 0.25}
)

func TestJudge(t *testing.T) {
	jitter := func(from, to int) float64 { return 1 + 0.01*float64((from*7+to*3)%5) }
	for _, c := range []struct {
		name       string
		rule       Rule
		n, perHost int
		value      func(from, to int) float64
		slow       int
		ranks      []Blame
		hosts      []Blame
		divided    bool
	}{
		{name: "all alike", rule: rates, n: 8, perHost: 1, value: jitter},
		{name: "exactly equal", rule: rates, n: 8, perHost: 1, value: func(int, int) float64 { return 12 }},
		{name: "a slow direction", rule: rates, n: 8, perHost: 1, slow: 1, value: func(a, b int) float64 {
			if a == 2 && b == 5 {
				return 0.4
			}
			return jitter(a, b)
		}},
		{name: "a slow rank of its own host", rule: rates, n: 8, perHost: 1, slow: 14, ranks: []Blame{{3, true, true}}, hosts: []Blame{{3, true, true}}, value: func(a, b int) float64 {
			if a == 3 || b == 3 {
				return 0.5 * jitter(a, b)
			}
			return jitter(a, b)
		}},
		{name: "slow to write only", rule: rates, n: 6, perHost: 1, slow: 5, ranks: []Blame{{3, true, false}}, hosts: []Blame{{3, true, false}}, value: func(a, b int) float64 {
			if a == 3 {
				return 0.1
			}
			return jitter(a, b)
		}},
		{name: "slow to be written to only", rule: rates, n: 6, perHost: 1, slow: 5, ranks: []Blame{{0, false, true}}, hosts: []Blame{{0, false, true}}, value: func(a, b int) float64 {
			if b == 0 {
				return 0.1
			}
			return jitter(a, b)
		}},
		{name: "a slow host of two ranks", rule: times, n: 12, perHost: 2, slow: 2 * 2 * 10, ranks: []Blame{{4, true, true}, {5, true, true}}, hosts: []Blame{{2, true, true}}, value: func(a, b int) float64 {
			switch {
			case a/2 == b/2:
				return 1
			case a/2 == 2 || b/2 == 2:
				return 50
			}
			return 10 * jitter(a, b)
		}},
		{name: "hosts apart are slower than one host, as they should be", rule: times, n: 8, perHost: 4, value: func(a, b int) float64 {
			if a/4 == b/4 {
				return 0.2
			}
			return 20 * jitter(a, b)
		}},
		{name: "a difference too small to matter", rule: times, n: 6, perHost: 6, value: func(a, b int) float64 {
			if a == 0 {
				return 0.6
			}
			return 0.2
		}},
		{name: "noisy, and nothing stands out", rule: rates, n: 8, perHost: 1, value: func(a, b int) float64 { return 1 + float64((a*5+b*11)%8) }},
		{name: "noisy, and one stands out", rule: rates, n: 8, perHost: 1, slow: 1, value: func(a, b int) float64 {
			if a == 1 && b == 2 {
				return 0.1
			}
			return 1 + float64((a*5+b*11)%8)
		}},
		{name: "three hosts, one slow: most pairs are its", rule: rates, n: 3, perHost: 1, divided: true, value: func(a, b int) float64 {
			if a == 0 || b == 0 {
				return 1
			}
			return 10
		}},
		{name: "two ranks have no median to stand out from", rule: rates, n: 2, perHost: 1, value: func(a, b int) float64 { return float64(1 + 9*a) }},
		{name: "nothing", rule: rates},
	} {
		v := Judge(matrix(c.n, max(c.perHost, 1), c.value), c.rule)
		if len(v.Slow) != c.slow || !slices.Equal(v.Ranks, c.ranks) || !slices.Equal(v.Hosts, c.hosts) {
			t.Errorf("%s: %d slow, ranks %v, hosts %v; want %d, %v, %v", c.name, len(v.Slow), v.Ranks, v.Hosts, c.slow, c.ranks, c.hosts)
		}
		if c.divided != slices.ContainsFunc(v.Spreads, func(s Spread) bool { return s.Divided }) {
			t.Errorf("%s: %+v", c.name, v.Spreads)
		}
	}
}

// TestJudgeAgainstNaive plants random slow pairs into random matrices.
func TestJudgeAgainstNaive(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PSRT_SEED"); s != "" {
		fmt.Sscan(s, &seed)
	}
	t.Logf("PSRT_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		n, perHost := rng.IntN(9), 1+rng.IntN(4)
		noise, share := rng.Float64()*0.5, rng.Float64()*0.4
		samples := matrix(n, perHost, func(int, int) float64 {
			v := 10 * (1 + noise*rng.NormFloat64())
			if rng.Float64() < share {
				v *= 3 * rng.Float64()
			}
			return math.Round(math.Abs(v)*4) / 4 // with ties
		})
		for _, rule := range []Rule{times, rates, {MADs: 3, Tolerance: 0.1}} {
			v := Judge(samples, rule)
			slow, ranks, hosts := naive(samples, rule)
			if !reflect.DeepEqual(v.Slow, slow) || !reflect.DeepEqual(v.Ranks, ranks) || !reflect.DeepEqual(v.Hosts, hosts) {
				t.Fatalf("%d ranks, %d a host, %+v: slow %v, ranks %v, hosts %v; naive %v, %v, %v\n%v", n, perHost, rule, v.Slow, v.Ranks, v.Hosts, slow, ranks, hosts, samples)
			}
		}
	}
}
