package tierstest

import (
	"math"

	"psrt/csrc/kernels"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// Table is what every storage of rows offers.
type Table interface {
	Lookup(keys []uint64, rows []uint32, create bool) (created int, err error)
	Gather(rows []uint32, dst []float32)
	Apply(rows []uint32, grads []float32) (refused int)
	Len() int
	Range(f func(key uint64, row []float32) bool)
	Load(key uint64, row []float32) error
	Reset()
	Digest() table.Digest
}

// Row is one row of the reference, twice.
type Row struct {
	Exact []float32 // what a storage must hold to the bit
	Wide  []float64 // the same by the formulas, in float64
}

// Reference is the second opinion on a table.
type Reference struct {
	spec table.Spec
	acc  *accessor.Accessor
	Rows map[uint64]*Row
}

// NewReference makes an empty reference of a valid description.
func NewReference(spec table.Spec, seed uint64) (*Reference, error) {
	acc, err := accessor.New(spec, seed)
	if err != nil {
		return nil, err
	}
	return &Reference{spec: spec, acc: acc, Rows: map[uint64]*Row{}}, nil
}

// Create makes a row if it is absent.
func (r *Reference) Create(key uint64) (created bool) {
	if r.Rows[key] != nil {
		return false
	}
	row := make([]float32, r.spec.RowFloats())
	r.acc.Born(key, row)
	r.Load(key, row)
	return true
}

// Load sets a row.
func (r *Reference) Load(key uint64, row []float32) {
	n := &Row{Exact: append([]float32(nil), row...)}
	for _, x := range row {
		n.Wide = append(n.Wide, float64(x))
	}
	r.Rows[key] = n
}

// Apply updates a row, unless the gradient is not finite.
func (r *Reference) Apply(key uint64, grad []float32) (refused bool) {
	for _, g := range grad {
		if math.IsNaN(float64(g)) || math.IsInf(float64(g), 0) {
			return true
		}
	}
	row := r.Rows[key]
	view := kernels.Rows{Bases: []*float32{&row.Exact[0]}, Stride: len(row.Exact), Count: 1}
	kernels.Go.Update(r.acc.Rule(), r.spec.Dim, &view, []uint32{0}, grad)
	formulas(r.acc.Rule(), row.Wide, grad)
	return false
}

// Digest is the digest by its definition.
func (r *Reference) Digest() table.Digest {
	var sum table.Digest
	for key, row := range r.Rows {
		sum.Add(hashRow(r.spec.ID, key, row.Exact))
	}
	return sum
}
