package decimal

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestNumbers(t *testing.T) {
	for _, s := range strings.Fields("0 7 -7 +7 007 1. .5 -.5 1.25 1e3 1E-3 1.e+3 .5e0 123456789012345678901234567890 1e400") {
		if !Is(s) || !Is([]byte(s)) {
			t.Errorf("%q is a number", s)
		}
		want, wantErr := strconv.ParseFloat(s, 64)
		if got, err := Float(s, 64); got != want || errors.Is(err, strconv.ErrRange) != errors.Is(wantErr, strconv.ErrRange) {
			t.Errorf("%q: %v, %v; strconv gives %v, %v", s, got, err, want, wantErr)
		}
	}
	for _, s := range append(strings.Fields("1_0 1_000 0x10 0x1p-2 0b1 0o7 Inf -inf infinity NaN nan . - + -. e1 1e 1e+ 1e1.5 1..2 1.2.3 --1 +-1 1x x1 1,5 １"), "", " 1", "1 ", "1\x00") {
		if Is(s) || Is([]byte(s)) {
			t.Errorf("%q is no number", s)
		}
		if _, err := Float(s, 64); !errors.Is(err, strconv.ErrSyntax) {
			t.Errorf("%q: %v", s, err)
		}
	}
	for s, want := range map[string]bool{"0": true, "-12": true, "+3": true, "010": true, "": false, "-": false, "1.0": false, "1e3": false, "1_0": false, "0x1": false} {
		if IsWhole(s) != want {
			t.Errorf("%q whole: %v", s, !want)
		}
	}
}

func TestPlain(t *testing.T) {
	for s, want := range map[string]bool{"0": true, "-0": true, "10": true, "0.5": true, "00.5": true, "010": false, "+010": false, "00": false, "1_0": false, "0x1": false, "": false} {
		if IsPlain(s) != want || IsPlain([]byte(s)) != want {
			t.Errorf("%q plain: %v", s, !want)
		}
	}
}

// FuzzIs: every number is one for strconv too, and what strconv alone takes is one of its literals.
func FuzzIs(f *testing.F) {
	for _, s := range []string{"1", "-1.5e3", "1_0", "0x1p1", "inf", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := strconv.ParseFloat(s, 64)
		theirs := err == nil || errors.Is(err, strconv.ErrRange)
		literal := strings.ContainsAny(s, "_xXpPnN") // also NaN and Inf
		if Is(s) && !theirs || theirs && !literal && !Is(s) {
			t.Errorf("%q: %v, strconv says %v", s, Is(s), err)
		}
	})
}
