package hier

import (
	"fmt"
	"slices"
	"testing"

	"psrt/csrc/fold"
	"psrt/csrc/seedtest"
)

// value is what an order makes of the names, written down with all brackets.
func value(order []fold.Merge, names []string) string {
	v := slices.Clone(names)
	for _, m := range order {
		v[m.Dst] = "(" + v[m.Dst] + "+" + v[m.Src] + ")"
	}
	return v[0]
}

// anyOrder is a random one over n ranks that ends in rank 0.
func anyOrder(n int, intN func(int) int) (order []fold.Merge) {
	left := make([]int, n)
	for i := range left {
		left[i] = i
	}
	for len(left) > 1 {
		i := intN(len(left) - 1)
		j := i + 1 + intN(len(left)-i-1)
		if intN(3) > 0 {
			j = i + 1 // as in a tree over ranks in order
		}
		order = append(order, fold.Merge{Dst: int32(left[i]), Src: int32(left[j])})
		left = slices.Delete(left, j, j+1)
	}
	return order
}

// Both levels together are the order: the same additions with the same brackets.
func TestSplitKeepsTheOrder(t *testing.T) {
	rng := seedtest.Rand(t)
	split := 0
	for range 3000 {
		n := 1 + rng.IntN(12)
		order := anyOrder(n, rng.IntN)
		names, hosts := make([]string, n), make([]string, n)
		for r := range n {
			names[r] = fmt.Sprint(r)
			hosts[r] = fmt.Sprint(r * (1 + rng.IntN(2)) / 3)
		}
		l := Split(order, hosts)
		if l == nil {
			continue
		}
		split++
		var sums []string
		for i, p := range l.Parts {
			var in []string
			for place, r := range p.Ranks {
				in = append(in, names[r])
				if hosts[r] != hosts[p.Ranks[0]] || l.Of[r] != i || l.Place(r) != place {
					t.Fatalf("%v on %v: %+v", order, hosts, l)
				}
			}
			sums = append(sums, value(p.Order, in))
		}
		if got, want := value(l.Above, sums), value(order, names); got != want {
			t.Fatalf("%v on %v: %s, want %s: %+v", order, hosts, got, want, l)
		}
	}
	if split < 100 {
		t.Errorf("only %d of the orders were split", split)
	}
}

// Parts are as large as they can be: two whose sums meet first are not of one host.
func TestPartsAreWholeHosts(t *testing.T) {
	order := []fold.Merge{{Dst: 0, Src: 1}, {Dst: 2, Src: 3}, {Dst: 0, Src: 2}, {Dst: 4, Src: 5}, {Dst: 0, Src: 4}}
	for _, c := range []struct {
		hosts string // a letter a rank
		parts string // "" nil
	}{
		{"aabbcc", "[[0 1] [2 3] [4 5]]"},
		{"aaaabb", "[[0 1 2 3] [4 5]]"},
		{"aaabbb", "[[0 1] [2] [3] [4 5]]"}, // no subtree is a host: the order is kept
		{"aaaaaa", ""},
		{"abcdef", ""},
		{"ababab", ""},
	} {
		var hosts []string
		for _, h := range c.hosts {
			hosts = append(hosts, string(h))
		}
		got := ""
		if l := Split(order, hosts); l != nil {
			var ranks [][]int
			for _, p := range l.Parts {
				ranks = append(ranks, p.Ranks)
			}
			got = fmt.Sprint(ranks)
		}
		if got != c.parts {
			t.Errorf("%s: %q, want %q", c.hosts, got, c.parts)
		}
	}
}

// In every part each byte has one owner; of the owners, who are all linked, one
// finishes it.
func TestPlansCoverTheVector(t *testing.T) {
	rng := seedtest.Rand(t)
	for range 300 {
		n := 3 + rng.IntN(9)
		hosts := make([]string, n)
		for r := range n {
			hosts[r] = fmt.Sprint(r / (2 + rng.IntN(2)))
		}
		l := Split(anyOrder(n, rng.IntN), hosts)
		if l == nil {
			continue
		}
		bytes := rng.IntN(5000)
		finished := make([]int, bytes)
		owner := make([][]int, len(l.Parts))
		for i := range owner {
			owner[i] = slices.Repeat([]int{-1}, bytes)
		}
		plans := make([]Plan, n)
		for r := range n {
			plans[r] = l.Plan(r, bytes)
			for at := plans[r].First; at < plans[r].End; at++ {
				if owner[l.Of[r]][at] >= 0 {
					t.Fatalf("two ranks own byte %d", at)
				}
				owner[l.Of[r]][at] = r
			}
		}
		for r, p := range plans {
			for _, s := range p.Slices {
				for at := s.First; at < s.End; at++ {
					finished[at]++
					for part, o := range s.Owners {
						if owner[part][at] != o || o != r && !slices.Contains(p.Links, o) {
							t.Fatalf("rank %d takes %v for the owners of byte %d, links %v", r, s.Owners, at, p.Links)
						}
					}
				}
			}
			for _, o := range p.Links {
				if !slices.Contains(plans[o].Links, r) {
					t.Fatalf("rank %d waits for %d, which does not know", r, o)
				}
			}
		}
		for at, times := range finished {
			if times != 1 || slices.ContainsFunc(owner, func(o []int) bool { return o[at] < 0 }) {
				t.Fatalf("byte %d of %d is finished %d times", at, bytes, times)
			}
		}
	}
}
