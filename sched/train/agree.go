package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// denseStand is how a worker stands with the dense vector when a group is joined.
type denseStand struct {
	has bool // a replica
	// pastSums: the process before had come to the end of a pass, whose steps have no more sums;
	// it may have pushed some that the others have not begun.
	pastSums bool
	// clean: of the first step that it computes no lane has anything, or none has added
	// it up.
	clean   bool
	applied uint64 // the step that the replica is before
	needs   uint64 // the first step whose sum it lacks, or that it computes again
	oldest  uint64 // the oldest step that it can tell again
}

// standBytes is a denseStand's size on its way.
const standBytes = 4 * 8

func (s denseStand) encode(b []byte) {
	var flags uint64
	if s.has {
		flags |= 1
	}
	if s.clean {
		flags |= 2
	}
	if s.pastSums {
		flags |= 4
	}
	for i, v := range []uint64{flags, s.applied, s.needs, s.oldest} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
}

func (s *denseStand) decode(b []byte) {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	*s = denseStand{has: word(0)&1 != 0, clean: word(0)&2 != 0, pastSums: word(0)&4 != 0, applied: word(1), needs: word(2), oldest: word(3)}
}

// agreement is what the workers of a new group do before they add again: all come to
// the same one.
type agreement struct {
	load bool // all take the vector from the servers; nothing else
	// root tells the steps [from, to), and with state the vector behind them.
	root     int
	from, to uint64
	state    bool
}

var errAllDied = errors.New("train: no worker is left that has the dense values between two steps: all have died; go on from the newest checkpoint with --resume")

// agree is pure. A step's sum is known to some worker only if all have given their part
// in it, so that replicas differ by one step at most; who goes on for a dead one may be
// some more steps behind.
func agree(all []denseStand) (a agreement, err error) {
	a.root = -1
	for i, s := range all {
		if !s.has {
			continue
		}
		if a.root < 0 || s.applied > a.to || s.applied == a.to && s.oldest < all[a.root].oldest {
			a.root, a.to = i, s.applied
		}
	}
	if a.root < 0 {
		for _, s := range all {
			if !s.clean || s.needs != all[0].needs {
				return a, errAllDied
			}
		}
		return agreement{load: true}, nil
	}
	a.from = a.to
	if slices.ContainsFunc(all, func(s denseStand) bool { return !s.has }) {
		a.from = all[a.root].oldest // whoever dies next may need older steps than this one
	}
	for i, s := range all {
		a.from = min(a.from, s.needs)
		a.state = a.state || !s.has
		if s.needs > a.to && !s.pastSums {
			return a, fmt.Errorf("train: worker %d has died behind step %d, whose sum had reached it and the servers and nobody else: go on from the newest checkpoint with --resume", i, a.to+1)
		}
	}
	if oldest := all[a.root].oldest; a.from < oldest {
		return a, fmt.Errorf("train: a worker needs the dense values of step %d, the others have kept those from %d on: please report this", a.from, oldest)
	}
	return a, nil
}
