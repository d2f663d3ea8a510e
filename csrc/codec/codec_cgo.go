//go:build cgo

package codec

// #cgo CFLAGS: -O3 -std=c11 -Wall
// #cgo noescape psrt_codec_level
// #cgo nocallback psrt_codec_level
// #cgo noescape psrt_half_encode
// #cgo nocallback psrt_half_encode
// #cgo noescape psrt_half_decode
// #cgo nocallback psrt_half_decode
// #cgo noescape psrt_byte_encode
// #cgo nocallback psrt_byte_encode
// #cgo noescape psrt_byte_decode
// #cgo nocallback psrt_byte_decode
// #cgo noescape psrt_peaks
// #cgo nocallback psrt_peaks
// #cgo noescape psrt_memcpy
// #cgo nocallback psrt_memcpy
// #include "codec.h"
import "C"

import "unsafe"

// Best is the fastest level of this build and CPU.
func Best() Level { return Level(C.psrt_codec_level()) }

func floats(s []float32) *C.float { return (*C.float)(unsafe.SliceData(s)) }

func halves(s []byte) *C.uint16_t { return (*C.uint16_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func octets(s []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(s)) }

func signed(s []byte) *C.int8_t { return (*C.int8_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

func memcpy(dst, src []float32) {
	C.psrt_memcpy(floats(dst), floats(src), C.int64_t(len(src)))
}

func (l Level) encodeHalf(codes, exps []byte, src []float32, width int, stream bool) {
	if l == Go {
		plainEncodeHalf(codes, exps, src, width)
		return
	}
	C.psrt_half_encode(C.int32_t(l), halves(codes), octets(exps), floats(src), C.int64_t(len(src)), C.int64_t(width), flag(stream))
}

func (l Level) decodeHalf(dst []float32, codes, exps []byte, width int, stream bool) {
	if l == Go {
		plainDecodeHalf(dst, codes, exps, width)
		return
	}
	C.psrt_half_decode(C.int32_t(l), floats(dst), halves(codes), octets(exps), C.int64_t(len(dst)), C.int64_t(width), flag(stream))
}

func (l Level) encodeByte(codes []byte, scales, src []float32, width int, stream bool) {
	if l == Go {
		plainEncodeByte(codes, scales, src, width)
		return
	}
	C.psrt_byte_encode(C.int32_t(l), signed(codes), floats(scales), floats(src), C.int64_t(len(src)), C.int64_t(width), flag(stream))
}

func (l Level) decodeByte(dst []float32, codes []byte, scales []float32, width int, stream bool) {
	if l == Go {
		plainDecodeByte(dst, codes, scales, width)
		return
	}
	C.psrt_byte_decode(C.int32_t(l), floats(dst), signed(codes), floats(scales), C.int64_t(len(dst)), C.int64_t(width), flag(stream))
}

func (l Level) peaks(peaks []uint32, src []float32, width int) {
	if l == Go {
		plainPeaks(peaks, src, width)
		return
	}
	C.psrt_peaks(C.int32_t(l), (*C.uint32_t)(unsafe.SliceData(peaks)), floats(src), C.int64_t(len(src)), C.int64_t(width))
}
