package place

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

const (
	// DefaultSlots is the number of slots where none is given: 16 for each of
	// 256 servers, and small enough that a map fits in a few pages.
	DefaultSlots = 4096
	MaxSlots     = 1 << 20
	// MaxServers bounds the ring that a map from outside can make us build.
	MaxServers = 4096
	// MaxLanes bounds all lanes of a map: lane numbers are uint16.
	MaxLanes = math.MaxUint16
	// MinWeight and MaxWeight bound a server's weight, so that shares can be
	// computed in integers, alike on every machine.
	MinWeight = 1e-3
	MaxWeight = 1e6
	maxAddr   = 1024 // bytes
)

// Server is one owner of slots.
type Server struct {
	ID     int     `json:"id"`             // >= 0, unique
	Weight float64 `json:"weight"`         // share of the slots relative to the others'; 0 means 1
	Lanes  int     `json:"lanes"`          // >= 1
	Addr   string  `json:"addr,omitempty"` // where it listens; opaque here
	// Host and Rack are where it runs: what fails together. Replicas lie apart.
	Host string `json:"host,omitempty"`
	Rack string `json:"rack,omitempty"`
	// Gen tells the processes apart that were this server one after the other: one
	// that was started again has none of the rows.
	Gen uint64 `json:"gen,omitempty"`
	// Speaks is the newest version of the wire that its program speaks; 0: SpeaksUnsaid.
	Speaks int `json:"speaks,omitempty"`
}

// SpeaksUnsaid is what servers speak that do not say it: of releases that knew of
// replicas and not of that.
const SpeaksUnsaid = 5

// Map is an immutable assignment. The exported fields are for reading.
type Map struct {
	Epoch   uint64
	Slots   int
	Servers []Server // in ID order

	slots  uint64   // Slots again, ready for SlotOf
	lane   []uint16 // slot -> global lane
	first  []int    // index in Servers -> its first lane; one more = all lanes
	dense  []uint64 // global lane -> weight of all lanes up to and with it
	server []uint16 // global lane -> index in Servers
}

// New makes a map from servers and weights alone: the same arguments (in any
// order) give the same map everywhere. slots = 0 means DefaultSlots.
func New(epoch uint64, slots int, servers []Server) (*Map, error) {
	m, err := skeleton(epoch, slots, servers)
	if err != nil {
		return nil, err
	}
	owner := m.ringOwners()
	load := make([]int, m.Lanes())
	for slot, o := range owner {
		m.give(slot, o, load)
	}
	return m, nil
}

// skeleton is a checked map without owners.
func skeleton(epoch uint64, slots int, servers []Server) (*Map, error) {
	if slots == 0 {
		slots = DefaultSlots
	}
	if slots < 1 || slots > MaxSlots {
		return nil, fmt.Errorf("place: %d slots, want 1 to %d (0 means %d)", slots, MaxSlots, DefaultSlots)
	}
	if most := min(slots, MaxServers); len(servers) == 0 || len(servers) > most {
		return nil, fmt.Errorf("place: %d servers for %d slots, want 1 to %d", len(servers), slots, most)
	}
	m := &Map{Epoch: epoch, Slots: slots, Servers: slices.Clone(servers), slots: uint64(slots), lane: make([]uint16, slots)}
	slices.SortFunc(m.Servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	var weight uint64
	for i := range m.Servers {
		s := &m.Servers[i]
		if s.Weight == 0 {
			s.Weight = 1
		}
		if err := m.check(i); err != nil {
			return nil, err
		}
		m.first = append(m.first, len(m.dense))
		if s.Lanes > MaxLanes-len(m.dense) {
			return nil, fmt.Errorf("place: more than %d lanes in all with server %d's %d; use fewer lanes a server", MaxLanes, s.ID, s.Lanes)
		}
		for range s.Lanes {
			weight += max(1, s.fixedWeight()/uint64(s.Lanes))
			m.dense = append(m.dense, weight)
			m.server = append(m.server, uint16(i))
		}
	}
	m.first = append(m.first, len(m.dense))
	return m, nil
}

// check looks at server i; those before it are in order.
func (m *Map) check(i int) error {
	s := m.Servers[i]
	switch {
	case s.ID < 0:
		return fmt.Errorf("place: server ID %d, want 0 or more", s.ID)
	case i > 0 && m.Servers[i-1].ID == s.ID:
		return fmt.Errorf("place: two servers have ID %d", s.ID)
	case !(s.Weight >= MinWeight && s.Weight <= MaxWeight): // NaN too
		return fmt.Errorf("place: server %d has weight %g, want %g to %g; leave a server out to give it nothing", s.ID, s.Weight, MinWeight, MaxWeight)
	case s.Lanes < 1:
		return fmt.Errorf("place: server %d has %d lanes, want at least 1", s.ID, s.Lanes)
	case len(s.Addr) > maxAddr || len(s.Host) > maxAddr || len(s.Rack) > maxAddr:
		return fmt.Errorf("place: server %d has an address, host or rack of more than %d bytes", s.ID, maxAddr)
	}
	return nil
}

// fixedWeight is the weight in units of 2^-16: integers divide alike on all
// machines, floats may not.
func (s *Server) fixedWeight() uint64 { return max(1, uint64(math.Round(s.Weight*65536))) }

// give assigns slot to the least loaded lane of the server at index o.
func (m *Map) give(slot int, o uint16, load []int) {
	best := m.first[o]
	for l := best + 1; l < m.first[o+1]; l++ {
		if load[l] < load[best] {
			best = l
		}
	}
	load[best]++
	m.lane[slot] = uint16(best)
}

// Mix spreads a key evenly over 64 bits, one to one (the finaliser of
// splitmix64). The high bits choose the slot; a table inside a lane must not
// use the same high bits as its hash.
func Mix(key uint64) uint64 {
	key += 0x9e3779b97f4a7c15
	key = (key ^ key>>30) * 0xbf58476d1ce4e5b9
	key = (key ^ key>>27) * 0x94d049bb133111eb
	return key ^ key>>31
}

// SlotOf is the slot of a key. Every uint64 is a key.
func (m *Map) SlotOf(key uint64) int {
	hi, _ := bits.Mul64(Mix(key), m.slots)
	return int(hi)
}

// LaneOf is the global lane of a key.
func (m *Map) LaneOf(key uint64) int { return int(m.lane[m.SlotOf(key)]) }

// LaneOfSlot is the global lane of a slot.
func (m *Map) LaneOfSlot(slot int) int { return int(m.lane[slot]) }

// LaneTable is the global lane of every slot, for loops of the caller's own.
// It is the map's own memory: read only.
func (m *Map) LaneTable() []uint16 { return m.lane }

// LanesOfKeys fills out[i] with the global lane of keys[i].
func (m *Map) LanesOfKeys(keys []uint64, out []uint16) {
	out = out[:len(keys)]
	slots, lane := m.slots, m.lane
	for i, k := range keys {
		hi, _ := bits.Mul64(Mix(k), slots)
		out[i] = lane[hi]
	}
}

// Lanes is the number of lanes of all servers.
func (m *Map) Lanes() int { return len(m.dense) }

// Index is the position of a server in Servers, -1 if it is not in the map.
func (m *Map) Index(id int) int {
	i, ok := slices.BinarySearchFunc(m.Servers, id, func(s Server, id int) int { return cmp.Compare(s.ID, id) })
	if !ok {
		return -1
	}
	return i
}

// FirstLane is the global number of a server's first lane, -1 if it is not in
// the map.
func (m *Map) FirstLane(id int) int {
	if i := m.Index(id); i >= 0 {
		return m.first[i]
	}
	return -1
}

// LanesOf is the number of lanes of a server, 0 if it is not in the map.
func (m *Map) LanesOf(id int) int {
	if i := m.Index(id); i >= 0 {
		return m.Servers[i].Lanes
	}
	return 0
}

// ServerOf is the index in Servers of a global lane's server.
func (m *Map) ServerOf(lane int) int { return int(m.server[lane]) }

// Owned is how many slots each server has, by index in Servers.
func (m *Map) Owned() []int {
	n := make([]int, len(m.Servers))
	for _, l := range m.lane {
		n[m.server[l]]++
	}
	return n
}

// Range is the slots First <= slot < Last.
type Range struct{ First, Last int64 }

// SlotRanges is the slots of a global lane as few ranges in order.
func (m *Map) SlotRanges(lane int) []Range {
	var all []Range
	for slot, l := range m.lane {
		at := int64(slot)
		if int(l) != lane {
			continue
		}
		if n := len(all); n > 0 && all[n-1].Last == at {
			all[n-1].Last++
		} else {
			all = append(all, Range{at, at + 1})
		}
	}
	return all
}

// LaneOfBlock is the global lane of block i of a dense vector of blocks
// blocks: runs of adjacent blocks, by weight, so that a lane's part of the
// vector is one contiguous range. Precondition: 0 <= i < blocks.
func (m *Map) LaneOfBlock(i, blocks int) int {
	// The block's middle, as a share of the total weight.
	hi, lo := bits.Mul64(2*uint64(i)+1, m.dense[len(m.dense)-1])
	at, _ := bits.Div64(hi, lo, 2*uint64(blocks))
	lane, _ := slices.BinarySearchFunc(m.dense, at, func(w, at uint64) int {
		if w <= at {
			return -1
		}
		return 1
	})
	return lane
}
