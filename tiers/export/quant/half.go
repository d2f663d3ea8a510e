package quant

import "math"

// Half rounds to the nearest half float, ties to even. f is finite; what is too
// large becomes infinite.
func Half(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b >= 0x477ff000: // 65520 and more
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: beside 0.5 one unit is 2^-24, a subnormal half's
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	// From an exponent's bias of 127 to 15; 0xfff and the last bit kept round.
	b += 0xc8000fff + b>>13&1
	return sign | uint16(b>>13)
}

// fromHalf is exact.
func fromHalf(h uint16) float32 {
	b := math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112)
	if h&0x7c00 == 0x7c00 {
		b = 0x7f800000 | uint32(h&0x3ff)<<13
	}
	return math.Float32frombits(b | uint32(h&0x8000)<<16)
}
