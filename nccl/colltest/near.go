package colltest

import (
	"math"

	"psrt/nccl/coll"
)

// roundoff is half of what the last bit of a float near 1 is worth, tiny the smallest
// float, huge nearly the largest.
func roundoff(t coll.Type) (u, tiny, huge float64) {
	switch t {
	case coll.F16:
		return 0x1p-11, 0x1p-24, 65504 / 2
	case coll.BF16:
		return 0x1p-8, 0x1p-133, math.MaxFloat32 / 2
	case coll.F32:
		return 0x1p-24, 0x1p-149, math.MaxFloat32 / 2
	}
	return 0x1p-53, math.SmallestNonzeroFloat64, math.MaxFloat64 / 2
}

func floats(t coll.Type) bool {
	return t == coll.F16 || t == coll.BF16 || t == coll.F32 || t == coll.F64
}

// near says from which byte on what rank has received of a reduction of floats is not what
// some order of its operations can give; -1: nowhere. want is in one order.
//
// n numbers that are added one by one are off by at most n-1 times the roundoff of the sum
// of their sizes, in any order; two orders by twice that. Products are, by as many
// roundoffs of themselves, where none on the way is too large or too small.
func near(calls []coll.Call, rank int, want []byte) int {
	c := &calls[rank]
	u, tiny, huge := roundoff(c.Type)
	width, n := c.Type.Size(), float64(len(calls))
	at := 0
	if c.Kind == coll.ReduceScatter {
		at = rank * len(c.Recv)
	}
	for i := 0; i < len(want); i += width {
		sum, product, large := 0.0, 1.0, 1.0
		for _, other := range calls {
			if other.Absent {
				continue
			}
			v := math.Abs(get(c.Type, other.Send[at+i:]).f)
			sum, product, large = sum+v, product*v, large*max(1, v)
		}
		var off float64
		switch c.Op {
		case coll.Sum:
			off = 2*n*u*sum + n*tiny
		case coll.Avg:
			off = 2*n*u*sum/n + 2*u*sum + n*tiny
		case coll.Prod:
			if large > huge {
				continue
			}
			off = 2*n*u*product + n*tiny*large
		}
		a, b := get(c.Type, c.Recv[i:]).f, get(c.Type, want[i:]).f
		if !(math.Abs(a-b) <= 1.01*off) {
			return i
		}
	}
	return -1
}
