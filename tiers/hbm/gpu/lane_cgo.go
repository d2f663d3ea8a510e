//go:build cgo

package gpu

import (
	"iter"

	"psrt/csrc/accel"
	"psrt/tiers/hbm"
)

// lane is a stream, whose pieces are done one after the other. Rows are moved in one
// and worked on in the other, so that those of the next batches come beside this one's work. A
// piece of one waits on the device for the newest of the other that names a row of its own: so
// that all is as if it had been done in the order in which it was asked for.
//
// What a piece brings goes to its stage in a stream beside, for which its kernel waits: so the next piece's
// copy goes on while this one's kernel runs, and what comes is as quick as the link.
type lane struct {
	stream *accel.Stream
	in     *accel.Stream // copies to stages: where nothing is brought for its own sake, stream
	stage  []stage
	next   uint64 // number of the newest piece, from 1
	over   uint64 // and of the newest that is known to be over
	any    uint64 // of the newest that may name any row
	awaits uint64 // of the newest piece of the other lane that the stream waits for
	index  int
}

// mark is what is known of a slot: the newest piece of each lane that names it, the last 32
// bits of its number, and the turn in which an update did.
type mark struct {
	by      [lanes]uint32
	updated uint32
}

// takeLanes makes the streams: one, with all stages, where none can wait for another.
func (a *arena) takeLanes() (err error) {
	for i := range a.lane {
		l := &a.lane[i]
		l.index = i
		switch {
		case a.dev.Waits():
			l.stage = make([]stage, laneStages)
		case i == working:
			l.stage = make([]stage, stages)
		default:
			return nil
		}
		if l.stream, err = a.dev.NewStream(); err != nil {
			return err
		}
		if l.in = l.stream; i == moving {
			if l.in, err = a.dev.NewStream(); err != nil {
				l.in = nil
				return err
			}
		}
	}
	return nil
}

// streams are those of all lanes.
func (a *arena) streams() iter.Seq[*accel.Stream] {
	return func(yield func(*accel.Stream) bool) {
		for i := range a.lane {
			l := &a.lane[i]
			if l.stream != nil && !yield(l.stream) || l.in != nil && l.in != l.stream && !yield(l.in) {
				return
			}
		}
	}
}

// mover is the lane that moves rows.
func (a *arena) mover() *lane {
	if l := &a.lane[moving]; l.stream != nil {
		return l
	}
	return &a.lane[working]
}

func (a *arena) allStages() iter.Seq[*stage] {
	return func(yield func(*stage) bool) {
		for i := range a.lane {
			for k := range a.lane[i].stage {
				if !yield(&a.lane[i].stage[k]) {
					return
				}
			}
		}
	}
}

// fence is that of the newest piece: its number, and its lane.
func (l *lane) fence() hbm.Fence { return hbm.Fence(l.next*lanes + uint64(l.index)) }

// of is the lane of a fence, and its piece's number there.
func (a *arena) of(f hbm.Fence) (l *lane, number uint64) {
	return &a.lane[f%lanes], uint64(f) / lanes
}

// inTurn marks slots with the lane's newest piece, and has it wait for the other lane's that
// name one of them.
func (a *arena) inTurn(l *lane, slots []uint32) error {
	other := &a.lane[(l.index+1)%lanes]
	if other.stream == nil {
		return nil
	}
	// Of the pieces that are neither over nor waited for, from is the oldest.
	from := max(other.over, l.awaits) + 1
	under := uint32(other.next + 1 - min(from, other.next+1))
	newest := uint32(0) // of them, counted from 1; a mark of four billion pieces ago may pass for one
	if other.any >= from {
		newest = uint32(other.any - from + 1)
	}
	for _, s := range slots {
		if int(s) >= len(a.marks) {
			continue
		}
		m := &a.marks[s]
		if at := m.by[other.index] - uint32(from); at < under && at >= newest {
			newest = at + 1
		}
		m.by[l.index] = uint32(l.next)
	}
	if newest == 0 {
		return nil
	}
	l.awaits = from + uint64(newest) - 1
	return l.stream.Wait(other.stage[int(l.awaits)%len(other.stage)].over)
}

// patient: what is on its way in is a buffer or two (a MiB takes a card's link some 40 us), in which the host finds so
// many keys or twice as many.
const patient = 4096

// behindAll has the working lane wait for all rows that are being moved, on the device.
func (a *arena) behindAll() error {
	l, w := &a.lane[moving], &a.lane[working]
	w.awaits = l.next
	return w.stream.Wait(l.stage[int(l.next)%len(l.stage)].over)
}

// moves says whether rows are being moved in that the working lane does not wait for. Those on their way out
// only are read, as by who looks for them.
func (a *arena) moves() bool {
	l, w := &a.lane[moving], &a.lane[working]
	if l.stream == nil {
		return false
	}
	for number := max(l.over, w.awaits) + 1; number <= l.next && a.failed == nil; number++ {
		s := &l.stage[int(number)%len(l.stage)]
		if s.number != number { // retired before the ones that are older
			continue
		}
		done, err := s.over.Passed()
		if a.fail(err) || !done && s.sets {
			return true
		}
		if !done {
			continue
		}
		a.retire(l, s)
	}
	return false
}
