package qualify

import "testing"

// Every pair once, the pairs of a round disjoint, and as few rounds as can be.
func TestRounds(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 8, 9, 16, 31, 256} {
		rounds := Rounds(n)
		if want := max(n-1+n%2, 0); n > 1 && len(rounds) != want || n < 2 && len(rounds) != 0 {
			t.Errorf("%d ranks: %d rounds, want %d", n, len(rounds), want)
		}
		met := map[Pair]int{}
		for _, round := range rounds {
			busy := map[int]bool{}
			for _, p := range round {
				if p.A >= p.B || p.A < 0 || p.B >= n || busy[p.A] || busy[p.B] {
					t.Fatalf("%d ranks: %v in %v", n, p, round)
				}
				busy[p.A], busy[p.B] = true, true
				met[p]++
			}
		}
		if len(met) != n*(n-1)/2 {
			t.Errorf("%d ranks: %d pairs meet, want %d", n, len(met), n*(n-1)/2)
		}
		for p, times := range met {
			if times != 1 {
				t.Errorf("%d ranks: %v meet %d times", n, p, times)
			}
		}
	}
}

func TestWaves(t *testing.T) {
	for _, c := range []struct {
		name         string
		ranks, hosts int // ranks are dealt in blocks
		limit        Host
		most         int // waves at most
	}{
		{"one rank a host", 8, 8, Host{Ranks: 4, Links: 1}, 7},
		{"two cores for nine ranks", 9, 1, Host{Ranks: 2, Links: 1}, 36},
		{"many cores", 9, 1, Host{Ranks: 64, Links: 1}, 9},
		{"eight a host, one link", 32, 4, Host{Ranks: 16, Links: 1}, 8 * 32},
		{"eight a host, eight links", 32, 4, Host{Ranks: 16, Links: 8}, 31},
		{"limits of nothing", 6, 2, Host{}, 15},
	} {
		hostOf, hosts := make([]int, c.ranks), make([]Host, c.hosts)
		for r := range hostOf {
			hostOf[r] = r * c.hosts / c.ranks
		}
		for h := range hosts {
			hosts[h] = c.limit
		}
		waves := Waves(Rounds(c.ranks), hostOf, hosts)
		pairs := 0
		for _, w := range waves {
			pairs += len(w)
			ranks, links, busy := make([]int, c.hosts), make([]int, c.hosts), map[int]bool{}
			for _, p := range w {
				a, b := hostOf[p.A], hostOf[p.B]
				if busy[p.A] || busy[p.B] {
					t.Fatalf("%s: %v is not disjoint", c.name, w)
				}
				busy[p.A], busy[p.B] = true, true
				ranks[a]++
				ranks[b]++
				if a != b {
					links[a]++
					links[b]++
				}
			}
			for h := range hosts {
				if len(w) == 0 || len(w) > 1 && (ranks[h] > max(c.limit.Ranks, 2) || links[h] > max(c.limit.Links, 1)) {
					t.Fatalf("%s: %v has %d ranks and %d links on host %d", c.name, w, ranks[h], links[h], h)
				}
			}
		}
		if pairs != c.ranks*(c.ranks-1)/2 || len(waves) > c.most {
			t.Errorf("%s: %d pairs in %d waves, want %d in at most %d", c.name, pairs, len(waves), c.ranks*(c.ranks-1)/2, c.most)
		}
	}
	if w := Serially(Rounds(5)); len(w) != 10 || len(w[3]) != 1 {
		t.Errorf("one at a time: %v", w)
	}
}
