package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Encoding is how a weight is stored. Its number is in files.
type Encoding uint32

const (
	F32 Encoding = 1 // as it is
	F16 Encoding = 2
	I8  Encoding = 3
)

// String is the encoding as flags and manifests write it.
func (e Encoding) String() string {
	switch e {
	case F32:
		return "fp32"
	case F16:
		return "fp16"
	case I8:
		return "int8"
	}
	return fmt.Sprintf("encoding %d", uint32(e))
}

// Parse reads what String writes.
func Parse(s string) (Encoding, error) {
	for _, e := range []Encoding{F32, F16, I8} {
		if s == e.String() {
			return e, nil
		}
	}
	return 0, fmt.Errorf("quant: encoding %q, want %v, %v or %v", s, F32, F16, I8)
}

// Layout is a row's.
type Layout struct {
	Encoding Encoding
	Dim      int
	Exact    int // leading weights kept as they are; 0 in F32
}

// Validate reports what is wrong with the layout, or nil.
func (l Layout) Validate() error {
	switch {
	case l.Encoding < F32 || l.Encoding > I8:
		return fmt.Errorf("quant: %v is not known", l.Encoding)
	case l.Dim < 1:
		return fmt.Errorf("quant: rows of %d weights", l.Dim)
	case l.Exact < 0 || l.Exact > l.Dim || l.Encoding == F32 && l.Exact != 0:
		return fmt.Errorf("quant: %d of %d weights are exact in %v", l.Exact, l.Dim, l.Encoding)
	}
	return nil
}

// Bytes is a row's size, a multiple of 4.
func (l Layout) Bytes() int {
	n := l.Dim - l.Exact
	switch {
	case l.Encoding == F32 || n == 0:
		return 4 * l.Dim
	case l.Encoding == F16:
		return 4*l.Exact + 4 + (2*n+3)&^3
	}
	return 4*l.Exact + 4 + (n+3)&^3
}

// Encode writes a row of Dim weights into dst, which has Bytes of room.
func (l Layout) Encode(dst []byte, w []float32) error {
	le := binary.LittleEndian
	plain := l.Exact
	if l.Encoding == F32 {
		plain = l.Dim
	}
	for i, x := range w[:plain] {
		le.PutUint32(dst[4*i:], math.Float32bits(x))
	}
	if w, dst = w[plain:l.Dim], dst[4*plain:]; len(w) == 0 {
		return nil
	}
	scale, err := l.Scale(w)
	if err != nil {
		return err
	}
	clear(dst[:l.Bytes()-4*plain])
	le.PutUint32(dst, math.Float32bits(scale))
	dst = dst[4:]
	if l.Encoding == F16 {
		for i, x := range w {
			h := Half(x / scale)
			if v := fromHalf(h) * scale; v-v != 0 {
				h-- // rounded up, beyond what a float32 can be
			}
			le.PutUint16(dst[2*i:], h)
		}
		return nil
	}
	for i, x := range w {
		dst[i] = byte(toInt8(x, scale))
	}
	return nil
}

// Scale is what the weights of a row are divided by, those kept exact left out.
func (l Layout) Scale(w []float32) (float32, error) {
	largest := float32(0)
	for i, x := range w {
		if x-x != 0 { // not finite
			return 0, fmt.Errorf("weight %d of those to be quantised is %v; keep the model in %v", i, x, F32)
		}
		largest = max(largest, float32(math.Abs(float64(x))))
	}
	if l.Encoding == I8 {
		scale := largest / 127
		for v := scale * 127; v-v != 0; v = scale * 127 {
			scale = math.Nextafter32(scale, 0)
		}
		return scale, nil
	}
	_, e := math.Frexp(float64(largest))
	return float32(math.Ldexp(1, max(e-15, -126))), nil
}

// Decode writes the weights of an encoded row to dst, which has Dim of room.
func (l Layout) Decode(dst []float32, row []byte) {
	le := binary.LittleEndian
	plain := l.Exact
	if l.Encoding == F32 {
		plain = l.Dim
	}
	for i := range plain {
		dst[i] = math.Float32frombits(le.Uint32(row[4*i:]))
	}
	if dst, row = dst[plain:l.Dim], row[4*plain:]; len(dst) == 0 {
		return
	}
	scale := math.Float32frombits(le.Uint32(row))
	row = row[4:]
	if l.Encoding == F16 {
		for i := range dst {
			dst[i] = fromHalf(le.Uint16(row[2*i:])) * scale
		}
		return
	}
	for i := range dst {
		dst[i] = float32(int8(row[i])) * scale
	}
}

// toInt8 rounds x / scale to the nearest integer, ties to even.
func toInt8(x, scale float32) int8 {
	if scale == 0 { // all weights are 0, or so small that their 127th part is
		return 0
	}
	return int8(max(-127, min(127, math.RoundToEven(float64(x/scale)))))
}
