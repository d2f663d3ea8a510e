package decimal

import (
	"strconv"
	"strings"
)

// Is reports whether s is a decimal number: an optional sign, digits with at most one point, and
// an optional exponent. Infinity and NaN are none.
func Is[T string | []byte](s T) bool {
	i := sign(s, 0)
	whole := digits(s, i)
	if i = whole; i < len(s) && s[i] == '.' {
		i = digits(s, i+1)
		if i == whole+1 && whole == sign(s, 0) {
			return false // a point without digits
		}
	} else if whole == sign(s, 0) {
		return false
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		from := sign(s, i+1)
		if i = digits(s, from); i == from {
			return false
		}
	}
	return i == len(s)
}

// IsWhole reports whether s is an optional sign and decimal digits.
func IsWhole[T string | []byte](s T) bool {
	from := sign(s, 0)
	return from < len(s) && digits(s, from) == len(s)
}

// IsPlain reports whether s is a decimal number for every reader. A whole number with a leading
// zero, such as 010, is none: YAML and C read it as octal.
func IsPlain[T string | []byte](s T) bool {
	from := sign(s, 0)
	return Is(s) && !(IsWhole(s) && len(s)-from > 1 && s[from] == '0')
}

// Float is strconv.ParseFloat of decimal numbers; anything else is strconv.ErrSyntax.
func Float(s string, bits int) (float64, error) {
	if !Is(s) {
		return 0, &strconv.NumError{Func: "ParseFloat", Num: strings.Clone(s), Err: strconv.ErrSyntax}
	}
	return strconv.ParseFloat(s, bits)
}

// sign is the index behind a sign at s[i].
func sign[T string | []byte](s T, i int) int {
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		return i + 1
	}
	return i
}

// digits is the index behind the digits that begin at s[i].
func digits[T string | []byte](s T, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}
