package dataset

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"psrt/csrc/decimal"
)

// cutUint reads decimal digits from p[i:] and returns the number, the index
// behind the digits, and whether the number fits 64 bits. No digit at all shows
// as next == i.
func cutUint(p []byte, i int) (n uint64, next int, fits bool) {
	start := i
	for i < len(p) {
		d := p[i] - '0'
		if d > 9 {
			return n, i, true
		}
		if i-start >= 3 && i-start <= 11 && i+8 <= len(p) {
			if w, ok := eightDigits(p[i:]); ok {
				n, i = n*1e8+w, i+8 // at most 19 digits so far: below 2^64
				continue
			}
		}
		if i-start >= 19 && (n > math.MaxUint64/10 || n*10 > math.MaxUint64-uint64(d)) {
			for i < len(p) && p[i]-'0' <= 9 {
				i++
			}
			return n, i, false
		}
		n, i = n*10+uint64(d), i+1
	}
	return n, i, true
}

// eightDigits turns eight ASCII digits into a number with three products, if
// all eight are digits. Precondition: len(p) >= 8.
func eightDigits(p []byte) (uint64, bool) {
	v := binary.LittleEndian.Uint64(p)
	if (v&0xF0F0F0F0F0F0F0F0)|((v+0x0606060606060606)&0xF0F0F0F0F0F0F0F0)>>4 != 0x3333333333333333 {
		return 0, false
	}
	v &= 0x0F0F0F0F0F0F0F0F
	v = v*10 + v>>8 // pairs in the even bytes
	v = ((v&0x000000FF000000FF)*0x000F424000000064 + (v>>16&0x000000FF000000FF)*0x0000271000000001) >> 32
	return v, true
}

// float32 powers of ten that float64 holds exactly.
var exactTens = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

var (
	errNotNumber = errors.New("not a number")
	errNotFinite = errors.New("not finite")
	errTooLarge  = errors.New("beyond the range of float32")
)

// parseFloat reads all of p as a finite decimal number (package decimal), as a float32 bit for bit
// what strconv.ParseFloat(p, 32) gives. Short decimals take the fast path: digits
// and exponent are exact in float64, so one division or product is rounded
// correctly; rounding that again to float32 can only go wrong when the float64
// lies exactly between two float32, and then strconv decides.
func parseFloat(p []byte) (float32, error) {
	if len(p) == 1 {
		if d := p[0] - '0'; d <= 9 {
			return float32(d), nil
		}
	}
	i, neg := 0, false
	if i < len(p) && (p[i] == '-' || p[i] == '+') {
		neg = p[i] == '-'
		i++
	}
	var m uint64
	digits, point := 0, -1
	for ; i < len(p); i++ {
		c := p[i]
		if d := c - '0'; d <= 9 {
			m = m*10 + uint64(d)
			digits++
		} else if c == '.' && point < 0 {
			point = digits
		} else {
			break
		}
	}
	if digits == 0 || digits > 15 {
		return slowFloat(p)
	}
	exp := 0
	if point >= 0 {
		exp = point - digits
	}
	if i < len(p) {
		e, ok := cutExponent(p[i:])
		if !ok {
			return slowFloat(p)
		}
		exp += e
	}
	f := float64(m)
	switch {
	case exp == 0:
	case exp < 0 && exp >= -22:
		f /= exactTens[-exp]
	case exp > 0 && exp <= 22:
		f *= exactTens[exp]
	default:
		return slowFloat(p)
	}
	if math.Float64bits(f)&(1<<29-1) == 1<<28 {
		return slowFloat(p)
	}
	if neg {
		f = -f
	}
	return float32(f), nil
}

// cutExponent reads e or E, a sign and one or two digits that end p.
func cutExponent(p []byte) (e int, ok bool) {
	if p[0]|0x20 != 'e' {
		return 0, false
	}
	p = p[1:]
	neg := false
	if len(p) > 0 && (p[0] == '-' || p[0] == '+') {
		neg, p = p[0] == '-', p[1:]
	}
	if len(p) < 1 || len(p) > 2 {
		return 0, false
	}
	for _, c := range p {
		if c < '0' || c > '9' {
			return 0, false
		}
		e = e*10 + int(c-'0')
	}
	if neg {
		e = -e
	}
	return e, true
}

func slowFloat(p []byte) (float32, error) {
	f, err := strconv.ParseFloat(string(p), 32)
	switch {
	case err == nil && (math.IsNaN(f) || math.IsInf(f, 0)):
		return 0, errNotFinite
	case !decimal.Is(p):
		return 0, errNotNumber
	case errors.Is(err, strconv.ErrRange):
		return 0, errTooLarge
	case err != nil:
		return 0, errNotNumber
	}
	return float32(f), nil
}
