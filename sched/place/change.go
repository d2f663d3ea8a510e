package place

import "fmt"

// Change is the next epoch's map after servers joined, left or changed weight,
// moving as few slots as that demands. It makes sure that every server of the
// new set has its fair share, up to one slot:
//
//	a server that left        gives all it had
//	a server above its quota  gives the excess, if another is below its own
//	any other                 gives nothing
//
// A slot that stays keeps its lane (and so no lane of a running server hands
// rows to another), unless its server's number of lanes changed.
func (m *Map) Change(servers []Server) (*Map, error) {
	if m.Epoch+1 == 0 {
		return nil, fmt.Errorf("place: epoch %d is the last", m.Epoch)
	}
	next, err := skeleton(m.Epoch+1, m.Slots, servers)
	if err != nil {
		return nil, err
	}
	room := next.quotas()
	load := make([]int, next.Lanes())
	var homeless []int
	// Keep what fits. Slots whose server has no room for them go to those that
	// have; which of a server's slots go is decided by slot number.
	for slot, lane := range m.lane {
		was := &m.Servers[m.server[lane]]
		i := next.Index(was.ID)
		if i < 0 || room[i] == 0 {
			homeless = append(homeless, slot)
			continue
		}
		room[i]--
		inside := int(lane) - m.first[m.server[lane]]
		if was.Lanes == next.Servers[i].Lanes {
			l := next.first[i] + inside
			next.lane[slot] = uint16(l)
			load[l]++
		} else {
			next.give(slot, uint16(i), load)
		}
	}
	next.settle(homeless, room, load)
	return next, nil
}

// settle gives the homeless to servers with room, in ring order so that they
// scatter.
func (m *Map) settle(homeless, room, load []int) {
	ring := m.ring()
	for _, slot := range homeless {
		i := searchRing(ring, slotAt(slot))
		for room[ring[i%len(ring)].owner] == 0 {
			i++
		}
		o := ring[i%len(ring)].owner
		room[o]--
		m.give(slot, o, load)
	}
}

// Move is one slot's way from one map to the next.
type Move struct {
	Slot     int
	From, To int // server IDs
}

// Moves lists the slots whose server differs between two maps of the same job.
func Moves(from, to *Map) ([]Move, error) {
	if from.Slots != to.Slots {
		return nil, fmt.Errorf("place: maps of %d and %d slots belong to different jobs", from.Slots, to.Slots)
	}
	var moves []Move
	for slot := range from.lane {
		a := from.Servers[from.server[from.lane[slot]]].ID
		b := to.Servers[to.server[to.lane[slot]]].ID
		if a != b {
			moves = append(moves, Move{slot, a, b})
		}
	}
	return moves, nil
}
