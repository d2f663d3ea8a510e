package codec

import (
	"encoding/binary"
	"math"
)

// As in codec.h and body.h.
const (
	leastExponent = 15
	plainExponent = 255
	leastPeak     = 0x03800000 // 2^-120
	infinity      = 0x7f800000
	highest       = 254 // exponent: rounded up to 2^15 its greatest would come back as 2^128
)

func plainPeaks(peaks []uint32, src []float32, width int) {
	for g := range peaks {
		m := uint32(0)
		for _, f := range group(src, g, width) {
			m = max(m, math.Float32bits(f)&0x7fffffff)
		}
		peaks[g] = m
	}
}

func group[T any](s []T, g, width int) []T { return s[g*width : min(len(s), (g+1)*width)] }

func plainEncodeHalf(codes, exps []byte, src []float32, width int) {
	var peak [1]uint32
	for g := range exps {
		from := group(src, g, width)
		plainPeaks(peak[:], from, width)
		e := max(peak[0]>>23, leastExponent)
		exps[g] = byte(e)
		factor := float32(1)
		if e != plainExponent {
			factor = math.Float32frombits((268 - e) << 23)
		}
		to := codes[g*width*2:]
		for i, f := range from {
			h := halfOf(f * factor)
			if e == highest && h&0x7fff == 0x7800 {
				h--
			}
			binary.LittleEndian.PutUint16(to[i*2:], h)
		}
	}
}

func plainDecodeHalf(dst []float32, codes, exps []byte, width int) {
	for g, e := range exps {
		factor := float32(1)
		switch {
		case e < leastExponent:
			factor = math.Float32frombits(1 << 23)
		case e != plainExponent:
			factor = math.Float32frombits(uint32(e-14) << 23)
		}
		from := codes[g*width*2:]
		for i := range group(dst, g, width) {
			dst[g*width+i] = floatOf(binary.LittleEndian.Uint16(from[i*2:])) * factor
		}
	}
}

// halfOf rounds to nearest, to even where two are as near.
func halfOf(f float32) uint16 {
	b := math.Float32bits(f)
	sign, m := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case m > infinity:
		return sign | 0x7e00 | uint16(m>>13&0x1ff) // quiet, as the CPU makes it
	case m >= 0x47800000:
		return sign | 0x7c00
	case m < 0x38800000: // no normal half: added to 1/2, what is lost is rounded
		return sign | uint16(math.Float32bits(math.Float32frombits(m)+0.5)-0x3f000000)
	}
	m += 0xc8000fff + m>>13&1
	return sign | uint16(m>>13)
}

func floatOf(h uint16) float32 {
	sign, m := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case m > 0x7c00:
		return math.Float32frombits(sign | infinity | 0x400000 | m&0x3ff<<13)
	case m == 0x7c00:
		return math.Float32frombits(sign | infinity)
	case m < 0x400:
		return math.Float32frombits(sign | math.Float32bits(float32(m)*0x1p-24))
	}
	return math.Float32frombits(sign | (m<<13 + 0x38000000))
}

func plainEncodeByte(codes []byte, scales, src []float32, width int) {
	var peak [1]uint32
	for g := range scales {
		from, to := group(src, g, width), group(codes, g, width)
		plainPeaks(peak[:], from, width)
		switch p := peak[0]; {
		case p >= infinity:
			scales[g] = math.Float32frombits(0x7fc00000)
			clear(to)
		case p < leastPeak:
			scales[g] = 0
			clear(to)
		default:
			top := math.Float32frombits(p)
			scales[g] = top / 127
			factor := 127 / top
			for i, f := range from {
				to[i] = byte(int8(max(-128, min(127, math.RoundToEven(float64(f*factor))))))
			}
		}
	}
}

func plainDecodeByte(dst []float32, codes []byte, scales []float32, width int) {
	for g, s := range scales {
		to := group(dst, g, width)
		for i, c := range group(codes, g, width) {
			to[i] = float32(int8(c)) * s
		}
	}
}
