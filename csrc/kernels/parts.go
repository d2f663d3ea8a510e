package kernels

import "fmt"

// A row of two parts is Dim weights, the state of the first weight by its rule,
// the vector's by the other, and LifeFloats words: counters as the bits of
// float64 in two words each, and whole numbers in one.
const (
	LifeShow    = 0
	LifeClick   = 2
	LifeDelta   = 4
	LifePending = 6
	LifeSeq     = 8
	LifeUnseen  = 9
	LifeSlot    = 10 // slot << 8 | flags
	LifeFloats  = 11

	// PushCounts are slot, show and click before the gradients of a push.
	PushCounts = 3
	// MaxPartsDim bounds the weights of a row of two parts.
	MaxPartsDim = 4096

	maxSlot = 1<<24 - 1
)

// Flags of LifeSlot.
const (
	Admitted uint32 = 1 << iota // the first weight lives
	Extended                    // and the vector
)

// AdmitBy is what admits a row that was born without Admitted.
type AdmitBy int32

// What a row's counters must reach.
const (
	AdmitAlways AdmitBy = iota
	AdmitShow
	AdmitScore
)

// Parts is how rows of two parts are updated, 0 the first weight, 1 the vector.
// Its layout is kernels.h's psrt_parts.
type Parts struct {
	Rules   [2]Rule
	Lo, Hi  [2]float32
	Bounded [2]int32 // 1: weights stay in [Lo, Hi]

	Dim         int32
	VectorState int32 // where the vector's state begins
	Life        int32 // where the words begin
	Seq         uint32
	AdmitBy     AdmitBy
	ShowScale   int32 // 1: gradients are divided by the shows, if there are any

	Nonclk, Click, ExtendAt, AdmitAt float64
}

func (p *Parts) check(rows *Rows) {
	rows.check(int(p.Life) + LifeFloats)
	dim := int(p.Dim)
	embed, vector := p.Rules[0].Kind.StateFloats(1), p.Rules[1].Kind.StateFloats(dim-1)
	if dim == 1 {
		vector = 0
	}
	if dim < 1 || dim > MaxPartsDim || int(p.VectorState) != dim+embed || int(p.Life) != dim+embed+vector {
		panic(fmt.Sprintf("kernels: parts of %d weights, with %d and %d floats of state, at %d and %d", dim, embed, vector, p.VectorState, p.Life))
	}
}

// GatherParts copies the weights that show to dst, as Gather does: none of a row
// that is not Admitted, the first of one that is not Extended, zeros for the
// others.
func GatherParts(p *Parts, dst []float32, step int, rows *Rows, ids []uint32) {
	Best().GatherParts(p, dst, step, rows, ids)
}

// GatherParts is the package's GatherParts at this level.
func (l Level) GatherParts(p *Parts, dst []float32, step int, rows *Rows, ids []uint32) {
	if len(ids) == 0 {
		return
	}
	p.check(rows)
	checkGather(dst, step, int(p.Dim), ids)
	l.gatherParts(p, dst, step, rows, ids)
}

// UpdateParts applies pushes, len(ids) x (PushCounts + Dim), to the rows of ids,
// in order: counters first, then the parts that live, then what the new counters
// admit and extend. refused counts rows left as they were because a number of
// their push is not finite, negative or no slot, because a gradient that they would
// learn is not finite once it is divided by the shows, because their Seq is not the
// parts', or because there is no such row; an id of 2^32-1 is passed over.
func UpdateParts(p *Parts, rows *Rows, ids []uint32, push []float32) (refused int) {
	return Best().UpdateParts(p, rows, ids, push)
}

// UpdateParts is the package's UpdateParts at this level.
func (l Level) UpdateParts(p *Parts, rows *Rows, ids []uint32, push []float32) (refused int) {
	if len(ids) == 0 {
		return 0
	}
	p.check(rows)
	if len(push) < len(ids)*(PushCounts+int(p.Dim)) {
		panic(fmt.Sprintf("kernels: push of %d floats for %d rows of %d", len(push), len(ids), p.Dim))
	}
	return l.updateParts(p, rows, ids, push)
}

// Lagging writes to out, as long as ids, the places in ids of rows whose Seq is
// not the parts', and returns how many there are.
func Lagging(p *Parts, rows *Rows, ids, out []uint32) int { return Best().Lagging(p, rows, ids, out) }

// Lagging is the package's Lagging at this level.
func (l Level) Lagging(p *Parts, rows *Rows, ids, out []uint32) int {
	if len(ids) == 0 {
		return 0
	}
	p.check(rows)
	if len(out) < len(ids) {
		panic(fmt.Sprintf("kernels: room for %d of %d rows that may lag", len(out), len(ids)))
	}
	return l.lagging(p, rows, ids, out)
}
