package rendezvous

import (
	"fmt"
	"net/netip"
	"strings"
)

// UnreachableError: ranks that cannot reach each other.
type UnreachableError struct {
	Pairs  []Unreachable
	Blamed string // the host that all of several pairs have in common, "" none
}

// Unreachable is one direction of a pair.
type Unreachable struct {
	From, To string   // "rank 2 (worker 0) on n2"
	Tried    []string // "10.0.0.1 (eth0): connection refused"
	Own      []string // the addresses of From
}

func (u *Unreachable) String() string {
	if len(u.Tried) == 0 {
		return fmt.Sprintf("%s cannot reach %s, which has no address for other hosts", u.From, u.To)
	}
	return fmt.Sprintf("%s with the addresses %s cannot reach %s at %s", u.From, strings.Join(u.Own, ", "), u.To, strings.Join(u.Tried, ", "))
}

const pairsShown = 3

func (e *UnreachableError) Error() string {
	var words []string
	for i := range e.Pairs {
		if i == pairsShown {
			words = append(words, fmt.Sprintf("and %d more", len(e.Pairs)-pairsShown))
			break
		}
		words = append(words, e.Pairs[i].String())
	}
	text := "rendezvous: " + strings.Join(words, "; ")
	if e.Blamed != "" {
		text += "; all of these have " + e.Blamed + " in common"
	}
	return text + ": open tcp, and for --transport quic udp, between these hosts (firewall, routes, VLAN), or name a network that both are in by --interface NAME or --interface 10.0.0.0/8"
}

// judge finds for every rank its best address that all others have reached. It
// is a function of what everybody knows, so every rank draws the same conclusion.
func judge(cards []Card, table [][][]reached, who func(int) string) ([]int, error) {
	name := func(r int) string { return fmt.Sprintf("rank %d (%s) on %s", r, who(r), cards[r].Host) }
	chosen := make([]int, len(cards))
	var bad []Unreachable
	for to := range cards {
		votes := make([]int, len(cards[to].Candidates))
		for from := range cards {
			if from == to {
				continue
			}
			any := false
			u := Unreachable{From: name(from), To: name(to), Own: addrs(cards[from].Candidates)}
			for _, r := range table[from][to] {
				if r.Candidate < 0 || r.Candidate >= len(votes) {
					return nil, fmt.Errorf("rendezvous: rank %d speaks of address %d of rank %d, which has %d", from, r.Candidate, to, len(votes))
				}
				c := cards[to].Candidates[r.Candidate]
				if r.Error == "" {
					votes[r.Candidate]++
					any = true
				} else {
					u.Tried = append(u.Tried, fmt.Sprintf("%s (%s): %s", c.Prefix.Addr(), c.Interface, r.Error))
				}
			}
			if !any {
				bad = append(bad, u)
			}
		}
		chosen[to] = -1
		for i, n := range votes {
			if n == len(cards)-1 {
				chosen[to] = i
				break
			}
		}
	}
	if len(bad) > 0 {
		return nil, &UnreachableError{Pairs: bad, Blamed: common(bad)}
	}
	for to, c := range chosen {
		if c < 0 {
			return nil, fmt.Errorf("rendezvous: %s has no address that all ranks reach, though each reaches one of %s: name a network that all are in by --interface NAME or --interface 10.0.0.0/8",
				name(to), strings.Join(addrs(cards[to].Candidates), ", "))
		}
	}
	return chosen, nil
}

func addrs(list []Candidate) []string {
	all := make([]string, 0, len(list))
	for _, c := range list {
		all = append(all, c.Prefix.Addr().String())
	}
	return all
}

// common is the rank that several pairs have in common, where they have one.
func common(bad []Unreachable) string {
	if len(bad) < 3 {
		return "" // a pair has two, whom nobody can tell apart
	}
	for _, rank := range []string{bad[0].From, bad[0].To} {
		all := true
		for _, u := range bad {
			all = all && (u.From == rank || u.To == rank)
		}
		if all {
			return rank
		}
	}
	return ""
}

// Place is an address for people.
func (m *Met) Place() string {
	if m.Addr == (netip.Addr{}) {
		return ""
	}
	return fmt.Sprintf("%s (%s)", m.Addr, m.Interface)
}
