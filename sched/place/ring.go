package place

import (
	"cmp"
	"math/bits"
	"slices"
)

const (
	// pointsPerWeight is how many points on the ring a server of typical
	// weight has. 256 leave about 6 % of imbalance for the bound to remove.
	pointsPerWeight = 256
	maxPoints       = 1 << 14 // a single server
)

// point is a virtual node.
type point struct {
	at    uint64
	owner uint16 // index in Servers
}

// ring is the servers' points in order.
func (m *Map) ring() []point {
	// Weights only matter relative to each other. They are scaled by a power
	// of two near their mean, which seldom changes when a server comes or
	// goes, so that the others' points stay where they are.
	var sum uint64
	for i := range m.Servers {
		sum += m.Servers[i].fixedWeight()
	}
	unit := uint64(1) << (bits.Len64(sum/uint64(len(m.Servers))) - 1)
	var ring []point
	for i := range m.Servers {
		s := &m.Servers[i]
		n := min(max(s.fixedWeight()*pointsPerWeight/unit, 1), maxPoints)
		for r := range n {
			ring = append(ring, point{pointAt(s.ID, r), uint16(i)})
		}
	}
	slices.SortFunc(ring, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.owner, b.owner))
	})
	return ring
}

// pointAt and slotAt are positions on the ring, far from each other and from
// the positions of keys.
func pointAt(id int, replica uint64) uint64 {
	return Mix(Mix(uint64(id)^0x70736572766572) + replica) // "pserver"
}

func slotAt(slot int) uint64 { return Mix(Mix(uint64(slot)) ^ 0x736c6f74) } // "slot"

// quotas is every server's fair number of slots by largest remainder: sums to
// Slots, at most one away from the exact share.
func (m *Map) quotas() []int {
	n := len(m.Servers)
	var sum uint64
	for i := range m.Servers {
		sum += m.Servers[i].fixedWeight()
	}
	quota, rest, left := make([]int, n), make([]uint64, n), m.Slots
	order := make([]int, n)
	for i := range m.Servers {
		hi, lo := bits.Mul64(m.Servers[i].fixedWeight(), uint64(m.Slots))
		q, r := bits.Div64(hi, lo, sum)
		quota[i], rest[i], order[i] = int(q), r, i
		left -= int(q)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:left] {
		quota[i]++
	}
	return quota
}

// limits is how many slots each server may hold at most: 5 % above fair,
// rounded down, but never below the quota.
func (m *Map) limits() []int {
	limit := m.quotas()
	for i, q := range limit {
		limit[i] = max(q, q*105/100)
	}
	return limit
}

// ringOwners is consistent hashing with bounded loads: slot by slot, in order
// of slot number, to the first server clockwise that is not full.
func (m *Map) ringOwners() []uint16 {
	ring, limit := m.ring(), m.limits()
	owner := make([]uint16, m.Slots)
	for slot := range owner {
		i := searchRing(ring, slotAt(slot))
		// Limits add up to at least Slots, so someone is not full.
		for limit[ring[i%len(ring)].owner] == 0 {
			i++
		}
		o := ring[i%len(ring)].owner
		limit[o]--
		owner[slot] = o
	}
	return owner
}

// searchRing is the index of the first point at or after at; it may be
// len(ring), which is the first point again.
func searchRing(ring []point, at uint64) int {
	i, _ := slices.BinarySearchFunc(ring, at, func(p point, at uint64) int { return cmp.Compare(p.at, at) })
	return i
}
