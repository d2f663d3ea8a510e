package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestSVG: what is drawn is well formed, has every curve and point, and text
// cannot become markup.
func TestSVG(t *testing.T) {
	curves := []Line{{"a <b>", []float64{1, 1024, 1 << 20}, []float64{0, 2, 30}}, {"empty", nil, nil}, {"one", []float64{4096}, []float64{5}}}
	for _, c := range []Chart{{}, {Title: "x & y", Lines: curves}, {Lines: curves, LogX: true, FromZero: true}, {Lines: curves, LogX: true, LogY: true}} {
		svg := c.SVG()
		d := xml.NewDecoder(strings.NewReader(svg))
		circles := 0
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
				circles++
			}
		}
		want := 0
		if len(c.Lines) > 0 {
			want = 4
			if c.LogY {
				want = 3 // 0 has no logarithm
			}
		}
		if circles != want || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%d points, want %d: %s", circles, want, svg)
		}
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{1: "1", 1000: "1000", 1024: "1K", 1536: "1536", 1 << 22: "4M", 1 << 30: "1G"} {
		if got := short(v); got != want {
			t.Errorf("%g is written %q, want %q", v, got, want)
		}
	}
}
