package text

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

const usualNaN = 0x7fc00000

// appendFloat spells a float; raw is for words that are no numbers.
func appendFloat(b []byte, v float32, raw bool) []byte {
	bits := math.Float32bits(v)
	if raw || v != v && bits != usualNaN {
		b = append(b, 'x')
		for shift := 28; shift >= 0; shift -= 4 {
			b = append(b, "0123456789abcdef"[bits>>shift&15])
		}
		return b
	}
	return strconv.AppendFloat(b, float64(v), 'g', -1, 32)
}

// parseFloat reads both spellings.
func parseFloat(s []byte) (float32, error) {
	if len(s) > 0 && s[0] == 'x' {
		if len(s) != 9 {
			return 0, fmt.Errorf("%q is not x and 8 hexadecimal digits", s)
		}
		v, err := strconv.ParseUint(string(s[1:]), 16, 32)
		if err != nil {
			return 0, fmt.Errorf("%q is not x and 8 hexadecimal digits", s)
		}
		return math.Float32frombits(uint32(v)), nil
	}
	if len(s) > 64 {
		return 0, fmt.Errorf("%.20q… is a number of %d characters", s, len(s))
	}
	if bytes.ContainsAny(s, "_xXpP") { // literals of Go, no spelling of ours
		return 0, fmt.Errorf("%q is not a float32", s)
	}
	v, err := strconv.ParseFloat(string(s), 32) // the conversion does not escape
	if err != nil {
		return 0, fmt.Errorf("%q is not a float32", s)
	}
	if v != v {
		return math.Float32frombits(usualNaN), nil
	}
	return float32(v), nil
}
