//go:build !cgo

package codec

// Best is the fastest level of this build and CPU.
func Best() Level { return Go }

func memcpy(dst, src []float32) { copy(dst, src) }

func (Level) encodeHalf(codes, exps []byte, src []float32, width int, _ bool) {
	plainEncodeHalf(codes, exps, src, width)
}

func (Level) decodeHalf(dst []float32, codes, exps []byte, width int, _ bool) {
	plainDecodeHalf(dst, codes, exps, width)
}

func (Level) encodeByte(codes []byte, scales, src []float32, width int, _ bool) {
	plainEncodeByte(codes, scales, src, width)
}

func (Level) decodeByte(dst []float32, codes []byte, scales []float32, width int, _ bool) {
	plainDecodeByte(dst, codes, scales, width)
}

func (Level) peaks(peaks []uint32, src []float32, width int) { plainPeaks(peaks, src, width) }
