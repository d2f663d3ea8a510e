package fold

import "math"

// FromBF16 widens a brain float.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds to the nearest brain float, ties to even.
func ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromF16 widens a half float.
func FromF16(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)<<13
	if rest >= 0x0f800000 { // infinity and NaN
		return math.Float32frombits(sign | rest | 0x7f800000)
	}
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(rest)*0x1p112))
}

// ToF16 rounds to the nearest half float, ties to even; what is too large becomes
// infinite.
func ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign, rest := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case rest > 0x7f800000:
		return sign | 0x7e00 | uint16(rest>>13&0x1ff)
	case rest >= 0x477ff000: // rounds beyond the largest
		return sign | 0x7c00
	case rest < 0x38800000: // the sum rounds to a denormal's last place
		return sign | uint16(math.Float32bits(math.Float32frombits(rest)+0.5)-0x3f000000)
	}
	return sign | uint16((rest-0x38000000+0xfff+rest>>13&1)>>13)
}
