package qualify

// Pair is two ranks, A < B.
type Pair struct{ A, B int }

// Rounds are all pairs of n ranks, by the circle method: the pairs of a round
// are disjoint, and there are as few rounds as can be: n-1 of n/2 pairs, or n
// where n is odd and one rank rests in each.
func Rounds(n int) [][]Pair {
	if n < 2 {
		return nil
	}
	seats := n + n%2 // who meets the empty seat rests
	rounds := make([][]Pair, 0, seats-1)
	for r := range seats - 1 {
		round := make([]Pair, 0, n/2)
		// Seat 0 stays, the others move on by one each round.
		at := func(i int) int {
			if i == 0 {
				return 0
			}
			return 1 + (i-1+r)%(seats-1)
		}
		for i := range seats / 2 {
			a, b := at(i), at(seats-1-i)
			if a < n && b < n {
				round = append(round, Pair{min(a, b), max(a, b)})
			}
		}
		rounds = append(rounds, round)
	}
	return rounds
}

// Host is what one host can carry at a time without its pairs disturbing each
// other.
type Host struct {
	Ranks int // that play at the same time: its CPUs, 2 at least
	Links int // pairs with other hosts: its network devices, 1 at least
}

// Waves cuts rounds into waves that may be played at once: hostOf gives the
// host of each rank. A wave is part of one round, so its pairs are disjoint.
func Waves(rounds [][]Pair, hostOf []int, hosts []Host) [][]Pair {
	var waves [][]Pair
	for _, round := range rounds {
		for left := round; len(left) > 0; {
			var wave, later []Pair
			ranks, links := make([]int, len(hosts)), make([]int, len(hosts))
			for _, p := range left {
				a, b := hostOf[p.A], hostOf[p.B]
				if room(a, b, hosts, ranks, links) {
					wave = append(wave, p)
				} else {
					later = append(later, p)
				}
			}
			waves = append(waves, wave)
			left = later
		}
	}
	return waves
}

// room says whether the pair may join the wave, and counts it then. A wave
// takes its first pair whatever the limits say.
func room(a, b int, hosts []Host, ranks, links []int) bool {
	if a == b {
		if ranks[a] > 0 && ranks[a]+2 > hosts[a].Ranks {
			return false
		}
		ranks[a] += 2
		return true
	}
	for _, h := range []int{a, b} {
		if links[h] > 0 && links[h]+1 > hosts[h].Links || ranks[h] > 0 && ranks[h]+1 > hosts[h].Ranks {
			return false
		}
	}
	for _, h := range []int{a, b} {
		links[h]++
		ranks[h]++
	}
	return true
}

// Serially is every pair by itself.
func Serially(rounds [][]Pair) [][]Pair {
	var waves [][]Pair
	for _, round := range rounds {
		for _, p := range round {
			waves = append(waves, []Pair{p})
		}
	}
	return waves
}
