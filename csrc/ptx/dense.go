package ptx

// Matrices is a product of two and what it is written to: C = op(A) op(B), and what C was
// where Add says so. They are addresses on the device of matrices without gaps, C of M
// times N floats; TransA says that A is K times M, TransB that B is N times K. Sums over K
// are cut into pieces as Most and Round say (blas.Pieces).
type Matrices struct {
	A, B, C        uint64
	M, N, K        int
	TransA, TransB bool
	Add            bool
	Most, Round    int
}

// tileRows is dense.h's TILE_ROWS.
const tileRows = 4

// Tiles is how many rows the kernel is launched for.
func (x *Matrices) Tiles() int { return (x.M + tileRows - 1) / tileRows * columns(x.N) }

// Append appends the argument of DenseProduct.
func (x *Matrices) Append(b []byte) []byte {
	aRow, aStep, bStep, bCol, add := x.K, 1, x.N, 1, 0
	if x.TransA {
		aRow, aStep = 1, x.M
	}
	if x.TransB {
		bStep, bCol = 1, x.K
	}
	if x.Add {
		add = 1
	}
	return words(b, x.A, x.B, x.C, uint64(x.M), uint64(x.N), uint64(x.K), uint64(aRow), uint64(aStep), uint64(bStep), uint64(bCol),
		uint64(x.Most), uint64(x.Round), uint64(add))
}

// Layer is what a kernel does with N examples of Units floats. What At are, dense.h says at
// each kernel.
type Layer struct {
	N, Units    int
	At          [7]uint64
	Key         uint64 // of dropout, whose other words are FirstRow, Drop and Keep
	FirstRow    uint64
	Drop        uint32
	Keep, Scale float32
	Square      bool
}

// Columns is how many rows a kernel that goes by columns is launched for; Loss is one, of N
// columns. Those that go by rows are launched for N.
func (x *Layer) Columns() int { return columns(x.Units) }

func columns(n int) int { return (n + Lanes - 1) / Lanes }

// Append appends the argument of every kernel of layers.
func (x *Layer) Append(b []byte) []byte {
	b = words(words(b, uint64(x.N), uint64(x.Units)), x.At[:]...)
	b = floats(ints(words(b, x.Key, x.FirstRow), int32(x.Drop)), x.Keep, x.Scale)
	square := int32(0)
	if x.Square {
		square = 1
	}
	return ints(b, square)
}
