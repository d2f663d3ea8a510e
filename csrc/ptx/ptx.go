package ptx

import (
	_ "embed" // the text
	"encoding/binary"
	"math"

	"psrt/csrc/kernels"
)

//go:generate ./compile.sh rows.cu rows.ptx

// Text is the kernels, for a driver to compile.
//
//go:embed rows.ptx
var Text string

// The kernels in it, and what their argument is made by.
const (
	GatherRows  = "psrt_gather_rows"  // Batch.Append
	PutRows     = "psrt_put_rows"     // Batch.Append
	UpdateRows  = "psrt_update_rows"  // Batch.AppendUpdate
	GatherParts = "psrt_gather_parts" // Batch.AppendGatherParts
	UpdateParts = "psrt_update_parts" // Batch.AppendUpdateParts
	FindRows    = "psrt_find_rows"    // Batch.AppendFind
	FindParts   = "psrt_find_parts"   // Batch.AppendFindParts

	DenseProduct  = "psrt_product"        // Matrices.Append
	Activate      = "psrt_activate"       // Layer.Append
	ActivateBack  = "psrt_activate_back"  // Layer.Append
	Normalize     = "psrt_normalize"      // Layer.Append
	NormalizeBack = "psrt_normalize_back" // Layer.Append
	Output        = "psrt_output"         // Layer.Append
	OutputBack    = "psrt_output_back"    // Layer.Append
	Cross         = "psrt_cross"          // Layer.Append
	CrossBack     = "psrt_cross_back"     // Layer.Append
	AddRows       = "psrt_add"            // Layer.Append
	Loss          = "psrt_loss"           // Layer.Append
)

// Kernels are all of them, in the order of psrt_accel.h's numbers.
var Kernels = [...]string{GatherRows, PutRows, UpdateRows, GatherParts, UpdateParts, FindRows, FindParts,
	DenseProduct, Activate, ActivateBack, Normalize, NormalizeBack, Output, OutputBack, Cross, CrossBack, AddRows, Loss}

// Lanes is how many threads share a row; Align is what the stride of rows, in
// floats, is a multiple of, and what rows and a batch's floats begin at.
const (
	Lanes = 16
	Align = 4
)

// BlockThreads is a block of a launch: whole rows and whole warps.
const BlockThreads = 256

// Blocks is how many blocks do n rows, one at least.
func Blocks(n int) int { return max(1, (n*Lanes+BlockThreads-1)/BlockThreads) }

// Batch is rows and what is done with them. Rows, Flat and IDs are addresses on the
// device; row id is the Stride floats at Rows + id x Stride, for id < Count; Flat is
// N times Width floats, each time Step floats further on, IDs N numbers. A kernel that
// writes rows wants each named once.
type Batch struct {
	Rows, Flat, IDs               uint64
	Stride, Count, N, Width, Step int
}

// Index is where the rows of keys are found: N keys at Keys, and the image of a
// probe.Bounded at Buckets, with its Hash.
type Index struct {
	Keys, Buckets uint64
	Seed          uint64
	Homes, Count  int
}

func words(b []byte, v ...uint64) []byte {
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func floats(b []byte, v ...float32) []byte {
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func ints(b []byte, v ...int32) []byte {
	for _, i := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
	}
	return b
}

func appendRule(b []byte, r *kernels.Rule) []byte {
	return floats(ints(b, int32(r.Kind)), r.LR, r.Beta1, r.Beta2, r.Eps, r.L1, r.L2, r.Beta)
}

// Append appends the argument of GatherRows and PutRows.
func (x *Batch) Append(b []byte) []byte {
	return words(b, x.Rows, x.Flat, x.IDs, uint64(x.Stride), uint64(x.Count), uint64(x.N), uint64(x.Width), uint64(x.Step))
}

// AppendUpdate appends that of UpdateRows; Width is the weights of a row. What is
// refused is added to the number at the address refused.
func (x *Batch) AppendUpdate(b []byte, r *kernels.Rule, refused uint64) []byte {
	return words(appendRule(x.Append(b), r), refused)
}

// AppendGatherParts appends that of GatherParts; life is where the words of a row
// begin.
func (x *Batch) AppendGatherParts(b []byte, life int) []byte {
	return words(x.Append(b), uint64(life))
}

// AppendFind appends that of FindRows, which writes the numbers of rows to IDs, NoRow
// of probe where a key has none.
func (x *Batch) AppendFind(b []byte, at *Index) []byte {
	return words(x.Append(b), at.Keys, at.Buckets, at.Seed, uint64(at.Homes), uint64(at.Count))
}

// AppendFindParts appends that of FindParts.
func (x *Batch) AppendFindParts(b []byte, at *Index, life int) []byte {
	return words(x.AppendFind(b, at), uint64(life))
}

// AppendUpdateParts appends that of UpdateParts; Width is that of a push.
func (x *Batch) AppendUpdateParts(b []byte, p *kernels.Parts, refused uint64) []byte {
	b = appendRule(appendRule(x.Append(b), &p.Rules[0]), &p.Rules[1])
	b = floats(b, p.Lo[0], p.Lo[1], p.Hi[0], p.Hi[1])
	b = ints(b, p.Bounded[0], p.Bounded[1], p.Dim, p.VectorState, p.Life, int32(p.Seq), int32(p.AdmitBy), p.ShowScale)
	for _, v := range []float64{p.Nonclk, p.Click, p.ExtendAt, p.AdmitAt} {
		b = words(b, math.Float64bits(v))
	}
	return words(b, refused)
}
