package ckpt

import (
	"encoding/binary"
	"math"
)

// How weights of a generation for serving are kept. Each row has a scale of its
// own, so that rows of small weights lose no more than others.
const (
	QuantNone = ""
	QuantFP16 = "fp16" // halves of weight/scale; the scale is a power of two
	QuantInt8 = "int8" // bytes of weight/scale, to the nearest
)

// appendQuantised appends the scale and the weights; false if one is not
// finite.
func appendQuantised(b []byte, how string, w []float32) ([]byte, bool) {
	top := float32(0)
	for _, x := range w {
		a := float32(math.Abs(float64(x)))
		if !(a <= math.MaxFloat32) {
			return b, false
		}
		top = max(top, a)
	}
	scale := float32(1)
	if top > 0 && how == QuantInt8 {
		// Rows of subnormal weights become 0 rather than divide by 0.
		scale = max(top/127, math.SmallestNonzeroFloat32)
	}
	if top > 0 && how == QuantFP16 {
		// The largest weight becomes 2^14 to 2^15: far from a half's largest,
		// and small weights of the row stay far from its subnormals.
		_, e := math.Frexp(float64(top))
		scale = float32(math.Ldexp(1, max(e-15, -126)))
	}
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(scale))
	for _, x := range w {
		q := float64(x) / float64(scale)
		if how == QuantInt8 {
			b = append(b, byte(int8(max(-127, min(127, math.RoundToEven(q))))))
		} else {
			b = binary.LittleEndian.AppendUint16(b, halfOf(float32(q)))
		}
	}
	return b, true
}

// decodeQuantised appends the n weights of a record behind its key to v.
func decodeQuantised(v []float32, b []byte, how string, n int) []float32 {
	scale := math.Float32frombits(binary.LittleEndian.Uint32(b))
	b = b[4:]
	for i := range n {
		if how == QuantInt8 {
			v = append(v, float32(int8(b[i]))*scale)
		} else {
			v = append(v, ofHalf(binary.LittleEndian.Uint16(b[2*i:]))*scale)
		}
	}
	return v
}

// halfOf rounds to the nearest half, ties to even; f is finite and far below
// the largest half.
func halfOf(f float32) uint16 {
	bits := math.Float32bits(f)
	sign, exp, frac := uint16(bits>>16&0x8000), int(bits>>23&0xff)-127, bits&0x7fffff
	if exp < -25 {
		return sign
	}
	shift := uint(13)
	if exp < -14 { // subnormal: the leading one becomes visible
		frac |= 0x800000
		shift += uint(-14 - exp)
		exp = -15
	}
	h := uint32(exp+15)<<10 + frac>>shift
	rest, tie := frac&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > tie || rest == tie && h&1 == 1 {
		h++ // a carry into the exponent is the next power of two, as it should be
	}
	return sign | uint16(h)
}

// ofHalf is exact.
func ofHalf(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0:
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
