package dial

import (
	"fmt"
	"slices"
	"strings"

	"psrt/rdma"
)

// Rail is a Domain of a transport that has several: one port of one device.
// The listener pairs its own rails with the dialer's, so that a connection's
// endpoints are spread over all of them.
type Rail interface {
	rdma.Domain
	// Describe tells peers what they need to know for Reach, in at most 1 KiB;
	// the error says why the rail cannot be used now (its link is down).
	Describe() ([]byte, error)
	// Reach says how well this rail reaches a described one: the more the
	// better, negative not at all. Nothing is sent.
	Reach(peer []byte) int
	// Distance from this process's memory: of the rails that reach the peer
	// the nearest share the load, the others wait until these are down.
	Distance() int
}

// maxRails bounds what a peer may offer.
const maxRails = 64

// offering is a transport of this process as its offer says: domains[i] is
// offer.Rails[i].
type offering struct {
	offer
	domains []rdma.Domain
}

// describe asks every rail whether it can be used now. Those that cannot have
// an empty description.
func describe(rails []rdma.Domain) (descriptions [][]byte, lack error) {
	usable := 0
	var first error
	for _, d := range rails {
		r, ok := d.(Rail)
		if !ok {
			return nil, fmt.Errorf("dial: domain %s is no Rail", d.Caps().Device)
		}
		b, err := r.Describe()
		if err == nil && len(b) > maxAddress {
			err = fmt.Errorf("dial: %s describes itself in %d bytes, the limit is %d", d.Caps().Device, len(b), maxAddress)
		}
		if err != nil {
			if first == nil {
				first = err
			}
			descriptions = append(descriptions, nil)
			continue
		}
		usable++
		descriptions = append(descriptions, b)
	}
	if usable == 0 {
		return nil, first
	}
	return descriptions, nil
}

// railPair is one way of reaching the peer.
type railPair struct{ here, peer int }

// pairRails gives each of count endpoints a pair. reach[i][j] says how well
// rail i here reaches rail j of the peer. Endpoint k takes the rails here in
// turns, beginning with first, and for each the best of the peer's; of equally
// good ones the least used so far, so that both sides' rails share the load.
// Only the nearest of the rails here are used. nil where no rail reaches any.
func pairRails(reach [][]int, distances []int, count, first int) []railPair {
	var usable []int
	peers := 0
	for i, row := range reach {
		peers = max(peers, len(row))
		if slices.ContainsFunc(row, func(score int) bool { return score >= 0 }) {
			if len(usable) > 0 && distances[i] < distances[usable[0]] {
				usable = nil
			}
			if len(usable) == 0 || distances[i] == distances[usable[0]] {
				usable = append(usable, i)
			}
		}
	}
	if len(usable) == 0 {
		return nil
	}
	used := make([]int, peers)
	pairs := make([]railPair, count)
	for k := range pairs {
		here := usable[(first+k)%len(usable)]
		best := -1
		for j, score := range reach[here] {
			if score < 0 {
				continue
			}
			if best < 0 || score > reach[here][best] || score == reach[here][best] && used[j] < used[best] {
				best = j
			}
		}
		used[best]++
		pairs[k] = railPair{here, best}
	}
	return pairs
}

// distancesOf the rails here.
func distancesOf(here []rdma.Domain) []int {
	list := make([]int, len(here))
	for i, d := range here {
		if r, ok := d.(Rail); ok {
			list[i] = r.Distance()
		}
	}
	return list
}

// reachOf fills the matrix for pairRails.
func reachOf(here []rdma.Domain, mine, theirs [][]byte) [][]int {
	reach := make([][]int, len(here))
	for i, d := range here {
		reach[i] = make([]int, len(theirs))
		for j, desc := range theirs {
			reach[i][j] = -1
			if r, ok := d.(Rail); ok && len(mine[i]) > 0 && len(desc) > 0 {
				reach[i][j] = r.Reach(desc)
			}
		}
	}
	return reach
}

// maxSingle bounds how many pairs are tried alone.
const maxSingle = 8

// single lists the pairs that meet, best first, if there is more than one.
func single(reach [][]int) []railPair {
	var list []railPair
	for i, row := range reach {
		for j, score := range row {
			if score >= 0 {
				list = append(list, railPair{i, j})
			}
		}
	}
	if len(list) < 2 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b railPair) int { return reach[b.here][b.peer] - reach[a.here][a.peer] })
	return list[:min(len(list), maxSingle)]
}

// onDevices names the rails that a plan uses, for people.
func onDevices(domains []rdma.Domain, plan []railPair) string {
	if len(plan) == 0 {
		return ""
	}
	var names []string
	for _, d := range domains {
		name := d.Caps().Device
		if c, ok := d.(interface{ Choice() string }); ok {
			name = c.Choice()
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return " (" + strings.Join(names, "; ") + ")"
}
