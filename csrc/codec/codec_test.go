package codec

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// gradients makes groups of very different sizes, some with zeros, denormals or what
// is not finite.
func gradients(r *rand.Rand, n, width int) []float32 {
	s := make([]float32, n)
	for g := range Groups(n, width) {
		size := math.Ldexp(1, r.IntN(270)-150)
		row := group(s, g, width)
		for i := range row {
			row[i] = float32(max(-math.MaxFloat32, min(math.MaxFloat32, r.NormFloat64()*size)))
			if r.IntN(40) == 0 {
				row[i] = 0
			}
		}
		switch at := r.IntN(len(row)); r.IntN(16) {
		case 0:
			row[at] = float32(math.NaN())
		case 1:
			row[at] = float32(math.Inf(r.IntN(2)*2 - 1))
		case 2:
			clear(row)
		case 3:
			row[at] = math.MaxFloat32
		case 4:
			row[at] = math.SmallestNonzeroFloat32
		}
	}
	return s
}

type made struct {
	half, exps, bytes     []byte
	scales, back, unbytes []float32
	peaks                 []uint32
}

func dirty[T any](n int, v T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func (l Level) all(src []float32, width int, stream bool) (m made) {
	n, g := len(src), Groups(len(src), width)
	m = made{dirty[byte](2*n, 9), dirty[byte](g, 9), dirty[byte](n, 9), dirty[float32](g, 9), dirty[float32](n, 9), dirty[float32](n, 9), dirty[uint32](g, 9)}
	if n == 0 {
		return m
	}
	l.encodeHalf(m.half, m.exps, src, width, stream)
	l.decodeHalf(m.back, m.half, m.exps, width, stream)
	l.encodeByte(m.bytes, m.scales, src, width, stream)
	l.decodeByte(m.unbytes, m.bytes, m.scales, width, stream)
	l.peaks(m.peaks, src, width)
	return m
}

// sameFloats compares bits; NaNs are one.
func sameFloats(t *testing.T, what string, want, got []float32) {
	t.Helper()
	for i := range want {
		if a, b := want[i], got[i]; math.Float32bits(a) != math.Float32bits(b) && (a == a || b == b) {
			t.Fatalf("%s: float %d is %x, in plain Go %x", what, i, math.Float32bits(b), math.Float32bits(a))
		}
	}
}

func TestLevelsGiveTheSameBits(t *testing.T) {
	for _, l := range Levels() {
		t.Run(l.String(), func(t *testing.T) {
			r := seedtest.Rand(t)
			for _, width := range []int{1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 40, 64, 100, 1000, MaxWidth} {
				for _, n := range []int{0, 1, width, 3*width + width/2, 16 * width, 32 * width, 700 * min(width, 60)} {
					src := gradients(r, n, width)
					want := Go.all(src, width, false)
					for _, stream := range []bool{false, true} {
						got := l.all(src, width, stream)
						for g, p := range got.peaks {
							if p != want.peaks[g] {
								t.Fatalf("width %d of %d: peak %d is %x, want %x", width, n, g, p, want.peaks[g])
							}
						}
						if !bytes.Equal(got.exps, want.exps) || !bytes.Equal(got.bytes, want.bytes) {
							t.Fatalf("width %d of %d, stream %v: other exponents or bytes than in plain Go", width, n, stream)
						}
						sameFloats(t, "decoded halves", want.back, got.back)
						sameFloats(t, "scales", want.scales, got.scales)
						sameFloats(t, "decoded bytes", want.unbytes, got.unbytes)
					}
				}
			}
		})
	}
}

// Every half is read alike by all, and every float near one rounded alike.
func TestAllHalves(t *testing.T) {
	const n = 1 << 16
	codes := make([]byte, 2*n)
	for i := range n {
		codes[2*i], codes[2*i+1] = byte(i), byte(i>>8)
	}
	exps := dirty[byte](n/16, plainExponent)
	want := make([]float32, n)
	plainDecodeHalf(want, codes, exps, 16)
	near := make([]float32, 0, 5*n)
	for _, f := range want {
		if b := math.Float32bits(f); f == f && b&0x7fffffff < infinity {
			near = append(near, f, math.Float32frombits(b+1), math.Float32frombits(b+0x1000), math.Float32frombits(b+0xfff), math.Float32frombits(b+0x1001))
		}
	}
	near = append(near, float32(math.Inf(1))) // one group, not scaled
	for _, l := range Levels() {
		got := make([]float32, n)
		l.DecodeHalf(got, codes, exps, 16)
		sameFloats(t, l.String(), want, got)
		for at := 0; at+15 < len(near); at += 15 {
			group := append(append([]float32{}, near[at:at+15]...), float32(math.Inf(-1)))
			a, b := make([]byte, 32), make([]byte, 32)
			Go.EncodeHalf(a, make([]byte, 1), group, 16)
			l.EncodeHalf(b, make([]byte, 1), group, 16)
			if !bytes.Equal(a, b) {
				t.Fatalf("%v: %x from %v, plain Go makes %x", l, b, group, a)
			}
		}
	}
}

func TestHowNear(t *testing.T) {
	r := seedtest.Rand(t)
	for range 200 {
		width := 1 + r.IntN(70)
		src := make([]float32, 20*width)
		for i := range src {
			src[i] = float32(r.NormFloat64() * math.Ldexp(1, -i/width*5))
		}
		m := Best().all(src, width, false)
		for i, f := range src {
			top := math.Float32frombits(m.peaks[i/width])
			if d := math.Abs(float64(f - m.back[i])); d > math.Abs(float64(f))/2048 && d > float64(top)*0x1p-38 {
				t.Fatalf("%g is %g as a half, in a group up to %g", f, m.back[i], top)
			}
			if d := math.Abs(float64(f - m.unbytes[i])); d > float64(top)/253 {
				t.Fatalf("%g is %g as a byte, in a group up to %g", f, m.unbytes[i], top)
			}
		}
	}
}

// The largest floats come back finite: rounded up they would not.
func TestLargest(t *testing.T) {
	for _, l := range Levels() {
		for _, stream := range []bool{false, true} {
			src := dirty[float32](70, 1)
			for i := range src {
				src[i] = math.Float32frombits(0x7f7fffff - uint32(i)*0x300)
				if i%3 == 0 {
					src[i] = -src[i]
				}
			}
			for _, width := range []int{7, 16, 70} {
				m := l.all(src, width, stream)
				for i, f := range src {
					if d := math.Abs(float64(m.back[i]) - float64(f)); !(d <= math.Abs(float64(f))/1024) {
						t.Fatalf("%v, groups of %d: %g comes back as %g", l, width, f, m.back[i])
					}
				}
			}
		}
	}
}

// What is not finite stays so, group by group.
func TestNotFinite(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for _, l := range Levels() {
			src := dirty[float32](48, 1e-20)
			src[20] = bad
			m := l.all(src, 16, false)
			for _, back := range [][]float32{m.back, m.unbytes} {
				for g, want := range []bool{true, false, true} {
					finite := true
					for _, f := range group(back, g, 16) {
						finite = finite && math.Abs(float64(f)) <= math.MaxFloat32
					}
					if finite != want {
						t.Fatalf("%v with %v: group %d comes back as %v", l, bad, g, group(back, g, 16))
					}
				}
			}
		}
	}
}

// Any codes, exponents and scales are read, and alike.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 3)
	f.Add(bytes.Repeat([]byte{0xff}, 100), 16)
	f.Fuzz(func(t *testing.T, codes []byte, width int) {
		width = 1 + int(uint(width)%64)
		n := len(codes) / 2
		exps, scales := make([]byte, Groups(n, width)), make([]float32, Groups(n, width))
		for i := range exps {
			exps[i] = codes[i]
			scales[i] = math.Float32frombits(uint32(codes[i]) << 24)
		}
		want, got := make([]float32, n), make([]float32, n)
		Go.DecodeHalf(want, codes[:2*n], exps, width)
		Best().DecodeHalf(got, codes[:2*n], exps, width)
		sameFloats(t, "halves", want, got)
		Go.DecodeByte(want, codes[:n], scales, width)
		Best().DecodeByte(got, codes[:n], scales, width)
		sameFloats(t, "bytes", want, got)
	})
}
