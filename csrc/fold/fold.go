package fold

import "fmt"

// Type is what the bytes are.
type Type uint8

// The types; the numbers are C's too.
const (
	I8 Type = iota
	U8
	I32
	U32
	I64
	U64
	F16
	BF16
	F32
	F64
	types
)

// Size of one element in bytes, 0 for no type.
func (t Type) Size() int {
	if t >= types {
		return 0
	}
	return [...]int{1, 1, 4, 4, 8, 8, 2, 2, 4, 8}[t]
}

// Op combines two elements.
type Op uint8

// The operations; the numbers are C's too.
const (
	Sum Op = iota
	Prod
	Min
	Max
	ops
)

// Merge is one step: source Dst becomes Dst op Src.
type Merge struct{ Dst, Src int32 }

// Job is one call's arithmetic.
type Job struct {
	Type Type
	Op   Op
	// Divide the result by this before it is written; 0 and 1 do not.
	Divide int
	// Order is applied from the first to the last; what is left is source 0. An
	// absent source leaves its partner as it is.
	Order []Merge
	// Past the caches: the destinations will not be read soon, and begin at a
	// multiple of 64 bytes for the best of it.
	Past bool
}

// maxSources bounds the memory of a call.
const maxSources = 4096

// Run folds the sources into each of the destinations, all of one length; a nil
// source is absent, and if all are the result is zeros. A destination may be one
// of the sources, and must not overlap any otherwise.
func (j *Job) Run(dsts, srcs [][]byte) { j.RunAt(Best(), dsts, srcs) }

// RunAt is Run in one of the forms; all give the same bits.
func (j *Job) RunAt(l Level, dsts, srcs [][]byte) {
	if len(dsts) == 0 {
		return
	}
	n := len(dsts[0])
	if j.Type >= types || j.Op >= ops || n%j.Type.Size() != 0 || len(srcs) > maxSources {
		panic(fmt.Sprintf("fold: type %d, operation %d over %d bytes of %d sources (at most %d)", j.Type, j.Op, n, len(srcs), maxSources))
	}
	for i, d := range dsts {
		if len(d) != n {
			panic(fmt.Sprintf("fold: destination %d has %d bytes, the first %d", i, len(d), n))
		}
	}
	for i, s := range srcs {
		if s != nil && len(s) != n {
			panic(fmt.Sprintf("fold: source %d has %d bytes, want %d", i, len(s), n))
		}
	}
	p := makePlan(srcs, j.Order)
	if p.root < 0 {
		for _, d := range dsts {
			clear(d)
		}
		return
	}
	if n == 0 {
		return
	}
	l.run(j, &p, dsts)
}

// plan is an order without absent sources.
type plan struct {
	srcs  [][]byte // present ones
	steps []Merge  // over srcs
	root  int32    // what is left, -1 if nothing is
}

func makePlan(srcs [][]byte, order []Merge) plan {
	p := plan{root: -1, srcs: make([][]byte, 0, len(srcs)), steps: make([]Merge, 0, len(order))}
	at := make([]int32, len(srcs)) // by source: where it is in p.srcs now, -1 absent
	for i, s := range srcs {
		if at[i] = -1; s != nil {
			at[i] = int32(len(p.srcs))
			p.srcs = append(p.srcs, s)
		}
	}
	for _, m := range order {
		if m.Dst < 0 || m.Src < 0 || int(m.Dst) >= len(srcs) || int(m.Src) >= len(srcs) || m.Dst == m.Src {
			panic(fmt.Sprintf("fold: merge of %d into %d, with %d sources", m.Src, m.Dst, len(srcs)))
		}
		switch d, s := at[m.Dst], at[m.Src]; {
		case s < 0:
		case d < 0:
			at[m.Dst], at[m.Src] = s, -1
		default:
			p.steps = append(p.steps, Merge{d, s})
			at[m.Src] = -1 // a source is taken once
		}
	}
	if len(at) > 0 {
		p.root = at[0]
	}
	return p
}
