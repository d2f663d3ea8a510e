package quant

import (
	"math"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

// halfValue is what a half float means, from its definition.
func halfValue(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10&31), float64(h&0x3ff)
	if h>>15 == 1 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

func TestEveryHalf(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		want, got := halfValue(h), float64(fromHalf(h))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != (h>>15 == 1) {
			t.Fatalf("%#x is %v, want %v", h, got, want)
		}
		if !math.IsNaN(want) && Half(fromHalf(h)) != h {
			t.Fatalf("%v becomes %#x, want %#x", want, Half(fromHalf(h)), h)
		}
	}
}

// TestHalfRoundsToNearest holds Half to both neighbours.
func TestHalfRoundsToNearest(t *testing.T) {
	rng := seedtest.Rand(t)
	for range 200_000 {
		f := math.Float32frombits(rng.Uint32())
		if f-f != 0 || math.Abs(float64(f)) > 65504 {
			continue
		}
		h := Half(f)
		err := math.Abs(halfValue(h) - float64(f))
		for _, n := range []uint16{h - 1, h + 1} {
			v := halfValue(n)
			if d := math.Abs(v - float64(f)); d < err || d == err && h&1 == 1 {
				t.Fatalf("%v became %v, but %v is as near or nearer", f, halfValue(h), v)
			}
		}
	}
}

func TestRows(t *testing.T) {
	rng := seedtest.Rand(t)
	for _, l := range []Layout{{F32, 1, 0}, {F32, 17, 0}, {F16, 1, 0}, {F16, 17, 0}, {F16, 16, 1}, {F16, 3, 3}, {I8, 1, 0}, {I8, 17, 1}, {I8, 16, 0}, {I8, 5, 5}} {
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, l.Bytes())
		if len(buf)%4 != 0 {
			t.Errorf("%+v takes %d bytes", l, len(buf))
		}
		w, got := make([]float32, l.Dim), make([]float32, l.Dim)
		for range 2000 {
			size := math.Ldexp(1, rng.IntN(200)-100)
			largest := 0.0
			for i := range w {
				w[i] = float32(rng.NormFloat64() * size)
				if i >= l.Exact {
					largest = max(largest, math.Abs(float64(w[i])))
				}
			}
			for i := range buf {
				buf[i] = 0xff // nothing depends on what was there
			}
			if err := l.Encode(buf, w); err != nil {
				t.Fatal(err)
			}
			l.Decode(got, buf)
			for i := range w {
				limit := 0.0
				switch {
				case i < l.Exact || l.Encoding == F32:
				case l.Encoding == F16:
					limit = max(math.Abs(float64(w[i]))/2048, largest*0x1p-39)
				default:
					limit = largest / 254 * 1.0001
				}
				if math.Abs(float64(got[i])-float64(w[i])) > limit {
					t.Fatalf("%+v: weight %d of %v became %v", l, i, w, got)
				}
			}
		}
	}
}

func TestEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, e := range []Encoding{F16, I8} {
		l := Layout{e, 2, 0}
		buf, got := make([]byte, l.Bytes()), make([]float32, 2)
		for _, bad := range []float32{inf, -inf, nan} {
			if err := l.Encode(buf, []float32{1, bad}); err == nil || !strings.Contains(err.Error(), "keep the model in fp32") {
				t.Errorf("%v: %v is encoded, error %v", e, bad, err)
			}
		}
		for _, w := range [][]float32{{0, 0}, {math.SmallestNonzeroFloat32, 0}, {math.MaxFloat32, -math.MaxFloat32}} {
			if err := l.Encode(buf, w); err != nil {
				t.Errorf("%v: %v: %v", e, w, err)
			}
			l.Decode(got, buf)
			for i := range w {
				if got[i]-got[i] != 0 || math.Abs(float64(got[i]-w[i])) > math.Abs(float64(w[i]))/127 && w[i] > 1e-40 {
					t.Errorf("%v: %v became %v", e, w, got)
				}
			}
		}
	}
	l := Layout{F32, 2, 0}
	buf, got := make([]byte, 8), make([]float32, 2)
	odd := math.Float32frombits(0x7fa00001) // a signalling NaN with a payload
	if err := l.Encode(buf, []float32{odd, -0}); err != nil {
		t.Fatal(err)
	}
	if l.Decode(got, buf); math.Float32bits(got[0]) != math.Float32bits(odd) {
		t.Errorf("fp32 changed %#x to %#x", math.Float32bits(odd), math.Float32bits(got[0]))
	}
	for _, bad := range []Layout{{}, {4, 1, 0}, {F32, 0, 0}, {F16, 2, 3}, {F32, 2, 1}, {I8, 2, -1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	for _, e := range []Encoding{F32, F16, I8} {
		if got, err := Parse(e.String()); got != e || err != nil {
			t.Errorf("Parse(%v) is %v, %v", e, got, err)
		}
	}
	if _, err := Parse("fp8"); err == nil {
		t.Error("fp8 is accepted")
	}
}
