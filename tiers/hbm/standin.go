package hbm

import "psrt/tiers/accessor"

// standIn is an arena in the host's memory that has taken the place of one whose device has
// failed: it has few of the slots, each at a place of its own.
type standIn struct {
	Arena          // of those places
	place []uint32 // by slot, noRow of those that it does not have
	at    []uint32
	find  func(keys []uint64, slots []uint32)
}

// newStandIn has the slots in play, of n.
func newStandIn(acc *accessor.Accessor, node, n int, play []uint32, find func([]uint64, []uint32)) (*standIn, error) {
	a, err := Host{Node: node}.Open(acc, nil, max(1, len(play)), 0)
	if err != nil {
		return nil, err
	}
	s := &standIn{Arena: a, place: make([]uint32, n), find: find}
	for i := range s.place {
		s.place[i] = noRow
	}
	for i, slot := range play {
		s.place[slot] = uint32(i)
	}
	return s, nil
}

func (s *standIn) places(slots []uint32) []uint32 {
	s.at = s.at[:0]
	for _, slot := range slots {
		if slot != noRow {
			slot = s.place[slot]
		}
		s.at = append(s.at, slot)
	}
	return s.at
}

// CopyIn leaves out what is no slot, as an entry of a journal may have some.
func (s *standIn) CopyIn(slots []uint32, rows []float32) Fence {
	at, n := s.places(slots), 0
	if len(at) == 0 {
		return 0
	}
	for width := len(rows) / len(at); n < len(at); n++ {
		if at[n] != noRow {
			s.Arena.CopyIn(at[n:n+1], rows[n*width:(n+1)*width])
		}
	}
	return 0
}

func (s *standIn) CopyOut(slots []uint32, rows []float32) Fence {
	return s.Arena.CopyOut(s.places(slots), rows)
}

func (s *standIn) Gather(slots []uint32, dst []float32, step int) Fence {
	return s.Arena.Gather(s.places(slots), dst, step)
}

func (s *standIn) Find(keys []uint64, slots []uint32, dst []float32, step int) Fence {
	s.find(keys, slots[:len(keys)])
	return s.Gather(slots[:len(keys)], dst, step)
}

func (s *standIn) Update(slots []uint32, grads []float32, refused *int) Fence {
	return s.Arena.Update(s.places(slots), grads, refused)
}
