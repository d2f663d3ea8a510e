package server

import (
	"slices"

	"psrt/sched/psmsg"
)

// denseParts counts, by worker and part, the dense pushes of workers that push for several others
// (psmsg.Request). In which order such a worker pushes them depends on the others' pace, and
// dies with it: its newest sequence does not tell who goes on for it which of them count.
type denseParts [][]uint64

// maxParts bounds what a request can make a lane keep.
const maxParts = 1 << 16

// count notes a push that counts.
func (p denseParts) count(r *request) {
	n := int(r.Table)
	if r.Kind != psmsg.KindPushDense || n == 0 || n > maxParts {
		return
	}
	of := &p[r.s.worker]
	if n > len(*of) {
		*of = append(*of, make([]uint64, n-len(*of))...)
	}
	(*of)[n-1]++
}

// some is p, or nil where no worker has parts.
func (p denseParts) some() denseParts {
	if slices.ContainsFunc(p, func(of []uint64) bool { return len(of) > 0 }) {
		return p
	}
	return nil
}
