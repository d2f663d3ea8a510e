package codec

import "fmt"

// MaxWidth bounds the floats of a group.
const MaxWidth = 4096

// Groups is how many groups of width n floats are.
func Groups(n, width int) int { return (n + width - 1) / width }

// streamBytes is from when on what is made goes around the caches: more than they
// keep for who reads it next.
const streamBytes = 4 << 20

// EncodeHalf writes two bytes for each float and one, its exponent, for each group.
func EncodeHalf(codes, exps []byte, src []float32, width int) {
	Best().EncodeHalf(codes, exps, src, width)
}

// DecodeHalf is its reverse. It takes any bytes.
func DecodeHalf(dst []float32, codes, exps []byte, width int) {
	Best().DecodeHalf(dst, codes, exps, width)
}

// EncodeByte writes one byte for each float and a scale for each group.
func EncodeByte(codes []byte, scales, src []float32, width int) {
	Best().EncodeByte(codes, scales, src, width)
}

// DecodeByte is its reverse. It takes any bytes and scales.
func DecodeByte(dst []float32, codes []byte, scales []float32, width int) {
	Best().DecodeByte(dst, codes, scales, width)
}

// Peaks writes the bits of each group's greatest magnitude: as integers they are in
// the order of the magnitudes, and from 0x7f800000 on not finite.
func Peaks(peaks []uint32, src []float32, width int) { Best().Peaks(peaks, src, width) }

// Memcpy copies as the C library does, or where there is no cgo as Go does: what some would
// measure a codec by.
func Memcpy(dst, src []float32) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("codec: a copy of %d floats to %d", len(src), len(dst)))
	}
	if len(src) > 0 {
		memcpy(dst, src)
	}
}

// EncodeHalf is the package's EncodeHalf at this level, and so on.
func (l Level) EncodeHalf(codes, exps []byte, src []float32, width int) {
	check("halves", len(src), width, len(codes), 2, len(exps))
	if len(src) > 0 {
		l.encodeHalf(codes, exps, src, width, len(src)*4 >= streamBytes)
	}
}

func (l Level) DecodeHalf(dst []float32, codes, exps []byte, width int) {
	check("halves", len(dst), width, len(codes), 2, len(exps))
	if len(dst) > 0 {
		l.decodeHalf(dst, codes, exps, width, len(dst)*4 >= streamBytes)
	}
}

func (l Level) EncodeByte(codes []byte, scales, src []float32, width int) {
	check("bytes", len(src), width, len(codes), 1, len(scales))
	if len(src) > 0 {
		l.encodeByte(codes, scales, src, width, len(src)*4 >= streamBytes)
	}
}

func (l Level) DecodeByte(dst []float32, codes []byte, scales []float32, width int) {
	check("bytes", len(dst), width, len(codes), 1, len(scales))
	if len(dst) > 0 {
		l.decodeByte(dst, codes, scales, width, len(dst)*4 >= streamBytes)
	}
}

func (l Level) Peaks(peaks []uint32, src []float32, width int) {
	check("peaks", len(src), width, len(src), 1, len(peaks))
	if len(src) > 0 {
		l.peaks(peaks, src, width)
	}
}

func check(what string, n, width, codes, each, groups int) {
	if width < 1 || width > MaxWidth || codes != n*each || groups != Groups(n, width) {
		panic(fmt.Sprintf("codec: %d floats in groups of %d (at most %d) with %d %s for %d groups", n, width, MaxWidth, codes, what, groups))
	}
}
