package metric

import (
	"math"
	"math/bits"
)

// fixed is a sum in 128-bit fixed point with 64 fractional bits. Adding is
// exact but for the cut of each addend at 2^-64, hence associative: the sum
// is the same in any order and over any split. Addends are at most
// maxAddend; 2^23 of that size fit.
type fixed struct {
	hi int64
	lo uint64
}

// maxAddend bounds what may be added, in magnitude.
const maxAddend = 1 << 40

// add reports whether v could be added: it is finite and not too large.
func (f *fixed) add(v float64) bool {
	if !(math.Abs(v) <= maxAddend) {
		return false
	}
	word := math.Float64bits(v)
	exponent := int(word>>52&0x7ff) - 1075 + 64
	mantissa := word&(1<<52-1) | 1<<52 // a subnormal is cut to 0 all the same
	var hi, lo uint64
	switch {
	case exponent <= -64:
	case exponent < 0:
		lo = mantissa >> -exponent
	case exponent < 64:
		hi, lo = mantissa>>(64-exponent), mantissa<<exponent
	default:
		hi = mantissa << (exponent - 64)
	}
	if v < 0 {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	f.merge(fixed{int64(hi), lo})
	return true
}

func (f *fixed) merge(g fixed) {
	lo, carry := bits.Add64(f.lo, g.lo, 0)
	hi, _ := bits.Add64(uint64(f.hi), uint64(g.hi), carry)
	f.hi, f.lo = int64(hi), lo
}

func (f fixed) value() float64 {
	return float64(f.hi) + float64(f.lo)*0x1p-64
}
