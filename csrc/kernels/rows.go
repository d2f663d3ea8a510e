package kernels

import "fmt"

// Rows says where rows lie: row i is the Stride floats at
// Bases[i>>Shift] + (i mod 2^Shift) x Stride, for i < Count.
//
// The memory behind Bases is not Go heap (or pinned by the caller): C walks it.
type Rows struct {
	Bases  []*float32
	Shift  uint
	Stride int
	Count  int
}

func (r *Rows) check(width int) {
	if r.Stride < width || r.Shift > 31 || r.Count > len(r.Bases)<<r.Shift {
		panic(fmt.Sprintf("kernels: %d rows of %d floats in %d slabs of %d rows do not hold %d floats a row",
			r.Count, r.Stride, len(r.Bases), 1<<r.Shift, width))
	}
}

// Row is the first width floats of row id, which must be below Count.
func (r *Rows) Row(id uint32, width int) []float32 {
	r.check(width)
	if int(id) >= r.Count {
		panic(fmt.Sprintf("kernels: row %d of %d", id, r.Count))
	}
	return r.row(id, width)
}

// Gather copies the first dim floats of each row named by ids into dst, the next
// row step floats further on. An id that is no row (table.NoRow, say) gives zeros.
func Gather(dst []float32, step, dim int, rows *Rows, ids []uint32) {
	Best().Gather(dst, step, dim, rows, ids)
}

// Gather is the package's Gather at this level.
func (l Level) Gather(dst []float32, step, dim int, rows *Rows, ids []uint32) {
	if len(ids) == 0 {
		return
	}
	rows.check(dim)
	checkGather(dst, step, dim, ids)
	l.gather(dst, step, dim, rows, ids)
}

func checkGather(dst []float32, step, dim int, ids []uint32) {
	if dim < 1 || step < dim || len(dst) < (len(ids)-1)*step+dim {
		panic(fmt.Sprintf("kernels: gather of %d rows of %d floats, %d apart, into %d floats", len(ids), dim, step, len(dst)))
	}
}

// Update applies the rule to the rows named by ids, in order, with the
// gradients grads, len(ids) x dim. A row whose gradient is not finite, or an id
// that is no row, is left as it is; refused counts those.
func Update(rule *Rule, dim int, rows *Rows, ids []uint32, grads []float32) (refused int) {
	return Best().Update(rule, dim, rows, ids, grads)
}

// Update is the package's Update at this level.
func (l Level) Update(rule *Rule, dim int, rows *Rows, ids []uint32, grads []float32) (refused int) {
	if len(ids) == 0 {
		return 0
	}
	if dim < 1 || len(grads) < len(ids)*dim || rule.Kind < SGD || rule.Kind > SharedAdam {
		panic(fmt.Sprintf("kernels: update by rule %d of %d rows of %d floats with %d gradients", rule.Kind, len(ids), dim, len(grads)))
	}
	rows.check(dim + rule.Kind.StateFloats(dim))
	return l.update(rule, dim, rows, ids, grads)
}
