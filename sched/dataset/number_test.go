package dataset

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

// checkFloat compares parseFloat with strconv on one text, but for Go's own literals, which are no
// numbers in data.
func checkFloat(t *testing.T, s string) {
	t.Helper()
	want, wantErr := strconv.ParseFloat(s, 32)
	got, err := parseFloat([]byte(s))
	if got, err := parseFloat([]byte(s)); strings.ContainsAny(s, "_xXpP") {
		if err != errNotNumber {
			t.Errorf("parseFloat(%q) = %v, %v; want not a number", s, got, err)
		}
		return
	}
	finite := !math.IsNaN(want) && !math.IsInf(want, 0)
	switch {
	case wantErr == nil && finite:
		if err != nil || math.Float32bits(got) != math.Float32bits(float32(want)) {
			t.Errorf("parseFloat(%q) = %v, %v; strconv gives %v", s, got, err, float32(want))
		}
	case err == nil:
		t.Errorf("parseFloat(%q) = %v; strconv gives %v, %v", s, got, want, wantErr)
	case errors.Is(wantErr, strconv.ErrRange) != errors.Is(err, errTooLarge):
		t.Errorf("parseFloat(%q): %v; strconv says %v", s, err, wantErr)
	}
}

func TestParseFloatTable(t *testing.T) {
	for _, s := range strings.Fields(`0 1 9 -1 +1 -0 00 007 .5 5. . - + -. 1e 1e+ e1 1e5 1E-5 1e-45 1e-46 1e38 3.5e38 1e400 -1e400
		0.1 0.2 0.3 1.0 0.333333 0.33333334 16777216 16777217 16777219 33554433 1.17549435e-38 1e-38 9.999999e-39
		123456789012345 1234567890123456 12345678901234567890123 0.000000000000001 1e22 1e23 1e-22 1e-23
		nan NaN inf -Inf infinity 0x1p-2 0x1.8p1 1_000 0x_1p1 1..2 1.2.3 1e1.5 --1 1e005 1e0000000001 0e99 1x x1
		8388608.5 8388609.5 16777217.0000001 1.00000005960464477 1.000000059604644775390625 3.4028235e38 3.40282357e38`) {
		checkFloat(t, s)
	}
	checkFloat(t, "")
	checkFloat(t, " 1")
	checkFloat(t, "1\x00")
}

func TestParseFloatRandom(t *testing.T) {
	r := seedtest.Rand(t)
	for range 300000 {
		var s string
		switch r.IntN(5) {
		case 0:
			s = strconv.FormatFloat(float64(math.Float32frombits(r.Uint32())), 'g', -1, 32)
		case 1:
			s = strconv.FormatFloat(r.NormFloat64(), 'f', r.IntN(12), 64)
		case 2:
			s = fmt.Sprintf("%d.%0*d", r.IntN(1000), 1+r.IntN(9), r.IntN(10))
		case 3: // near the middle between two float32, where double rounding would show
			f := math.Float32frombits(0x3f800000 + r.Uint32()%0x08000000)
			mid := (float64(f) + float64(math.Nextafter32(f, 2*f))) / 2
			s = strconv.FormatFloat(mid, 'g', 9+r.IntN(9), 64)
		case 4:
			s = fmt.Sprintf("%de%d", r.Uint64()>>r.IntN(64), r.IntN(60)-30)
		}
		checkFloat(t, s)
	}
}

func FuzzParseFloat(f *testing.F) {
	for _, s := range []string{"1", "0.1", "-1.5e-3", "inf", "1e400", "16777217"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) < 100 {
			checkFloat(t, s)
		}
	})
}

func checkUint(t *testing.T, s string) {
	t.Helper()
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, next, fits := cutUint([]byte(s), 0)
	if next != digits {
		t.Errorf("cutUint(%q) ends at %d, digits end at %d", s, next, digits)
	}
	want, err := strconv.ParseUint(s[:digits], 10, 64)
	if digits > 0 && (fits != (err == nil) || fits && n != want) {
		t.Errorf("cutUint(%q) = %d, fits %v; strconv gives %d, %v", s, n, fits, want, err)
	}
}

func TestCutUint(t *testing.T) {
	for _, s := range []string{"", "x", "0", "7:", "18446744073709551615", "18446744073709551616", "18446744073709551615:1",
		"18446744073709551620", "99999999999999999999", "100000000000000000000", "00000000000000000000000000000000000042:1",
		"000000000000000000018446744073709551616", "1234567", "12345678", "123456789:", "12345678901", "123:45678901"} {
		checkUint(t, s)
	}
	r := seedtest.Rand(t)
	for range 200000 {
		s := strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)
		switch r.IntN(4) {
		case 0:
			s = strings.Repeat("0", r.IntN(12)) + s
		case 1:
			s += strconv.Itoa(r.IntN(1000))
		case 2:
			s += ":" + s
		}
		checkUint(t, s)
	}
}

func FuzzCutUint(f *testing.F) {
	f.Add("18446744073709551615:")
	f.Add("00012")
	f.Fuzz(checkUint)
}
