package nn

import "fmt"

// Parts says which sums a sparse pass makes.
type Parts int

const (
	Linear Parts = 1 << iota // first order: row[0] * value
	FM                       // second order of a factorization machine
	Pool                     // pooled embeddings per field
)

// Sparse is one leaf's sparse input. Example i owns occurrences Offsets[i] to
// Offsets[i+1]; occurrence j is value Values[j] of row Uniq[Occ[j]] of Matrix,
// and its gradient is added to row Occ[j] of the leaf's gradient rows.
//
// A row of Matrix is a weight (only with Linear), then Dim embedding floats
// that are read with FM or Pool only; RowDim is the distance between rows.
type Sparse struct {
	Parts   Parts
	Offsets []int32
	Occ     []int32
	Uniq    []int32
	Field   []uint16 // per occurrence, below Fields; read with Pool only
	Values  []float32
	Matrix  []float32
	RowDim  int
	Dim     int
	Fields  int
}

// Len is the number of examples.
func (x *Sparse) Len() int { return len(x.Offsets) - 1 }

// Check says whether every index and length fits, so that no pass reads or
// writes outside its operands. It costs one look at every index.
func (x *Sparse) Check() error {
	if len(x.Offsets) == 0 || x.Offsets[0] != 0 {
		return fmt.Errorf("nn: offsets must begin with 0 and have one entry more than there are examples")
	}
	for i := 1; i < len(x.Offsets); i++ {
		if x.Offsets[i] < x.Offsets[i-1] {
			return fmt.Errorf("nn: offset %d is %d, below the one before it, %d", i, x.Offsets[i], x.Offsets[i-1])
		}
	}
	n := int(x.Offsets[x.Len()])
	switch {
	case n != len(x.Values) || n != len(x.Occ):
		return fmt.Errorf("nn: offsets name %d occurrences, there are %d values and %d occurrence numbers", n, len(x.Values), len(x.Occ))
	case x.Parts&Pool != 0 && n != len(x.Field):
		return fmt.Errorf("nn: offsets name %d occurrences, there are %d field ids", n, len(x.Field))
	case x.RowDim < x.used() || x.RowDim < 1:
		return fmt.Errorf("nn: rows of %d floats, the sums read %d", x.RowDim, x.used())
	}
	return x.checkIndices()
}

func (x *Sparse) checkIndices() error {
	uniques, rows := uint32(len(x.Uniq)), len(x.Matrix)/x.RowDim
	for j, o := range x.Occ {
		if uint32(o) >= uniques {
			return fmt.Errorf("nn: occurrence %d is unique number %d, there are %d", j, o, uniques)
		}
	}
	for j, r := range x.Uniq {
		if uint(r) >= uint(rows) {
			return fmt.Errorf("nn: unique number %d is row %d, the matrix has %d", j, r, rows)
		}
	}
	if x.Parts&Pool == 0 {
		return nil
	}
	for j, f := range x.Field {
		if int(f) >= x.Fields {
			return fmt.Errorf("nn: occurrence %d is of field %d, the model has fields 0 to %d", j, f, x.Fields-1)
		}
	}
	return nil
}

// used is the number of floats of a row that the parts read.
func (x *Sparse) used() int {
	used := 0
	if x.Parts&Linear != 0 {
		used = 1
	}
	if x.Parts&(FM|Pool) != 0 {
		used += x.Dim
	}
	return used
}

// Forward computes logits z = bias + linear + second order, the FM sums s
// [Len x Dim] that Backward needs, and the pooled embeddings x0
// [Len x Fields*Dim]; s and x0 may be nil where their part is not asked for.
//
// Preconditions: x has passed Check.
func (v Level) Forward(x *Sparse, bias float32, z, s, x0 []float32) {
	x.operands(z, s, x0)
	if x.Len() > 0 {
		v.sparseForward(x, bias, z, s, x0)
	}
}

// Backward overwrites rows [len(Uniq) x RowDim] with the gradient of the
// pulled rows, given the logits' gradient g, Forward's s, and the pooled
// embeddings' gradient dx0. Examples are added in order.
//
// Preconditions: x has passed Check.
func (v Level) Backward(x *Sparse, g, s, dx0, rows []float32) {
	x.operands(g, s, dx0)
	need("gradient rows", len(rows), len(x.Uniq)*x.RowDim)
	v.sparseBackward(x, g, s, dx0, rows)
}

func (x *Sparse) operands(z, s, x0 []float32) {
	need("logits", len(z), x.Len())
	if x.Parts&FM != 0 {
		need("second-order sums", len(s), x.Len()*x.Dim)
	}
	if x.Parts&Pool != 0 {
		need("pooled embeddings", len(x0), x.Len()*x.Fields*x.Dim)
	}
}

// need panics, like an index out of range does, on an operand of wrong length.
func need(what string, have, want int) {
	if have != want {
		panic(fmt.Sprintf("nn: %s: %d floats given, %d needed", what, have, want))
	}
}
