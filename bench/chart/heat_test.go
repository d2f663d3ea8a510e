package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// TestHeat: every place is drawn, once, the marked ones framed, and many ranks
// stay small.
func TestHeat(t *testing.T) {
	for _, n := range []int{1, 2, 9, 64, 65, 256} {
		h := Heat{Title: "a < b", Values: make([][]float64, n), Middle: func(int, int) float64 { return 10 },
			Marked: func(row, column int) bool { return row == 0 && column == n-1 }}
		for row := range h.Values {
			h.Values[row] = make([]float64, n)
			for column := range h.Values[row] {
				h.Values[row][column] = 10 + float64((row*column)%3)*0.1
			}
		}
		if n > 1 {
			h.Values[n-1][0] = math.NaN()
			h.Values[0][n-1] = 1
		}
		svg := h.SVG()
		if len(svg) > 200<<10 && n > heatTitles {
			t.Errorf("%d ranks take %d bytes", n, len(svg))
		}
		cells, frames, dark := 0.0, 0, 0
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%d ranks: %v", n, err)
			}
			e, ok := token.(xml.StartElement)
			if !ok || e.Name.Local != "rect" {
				continue
			}
			at := map[string]string{}
			for _, a := range e.Attr {
				at[a.Name.Local] = a.Value
			}
			switch {
			case at["fill"] == "none":
				frames++
				continue
			case at["fill"] == heatMissing:
				dark++
			}
			cells += number(t, at["width"]) / number(t, at["height"])
		}
		want := n * (n - 1)
		if math.Abs(cells-float64(want)) > 0.05*float64(want)+0.01 || n > 1 && (frames != 1 || dark != 1) || strings.Contains(svg, "NaN") {
			t.Errorf("%d ranks: %.1f places of %d, %d frames, %d dark", n, cells, want, frames, dark)
		}
	}
	if (&Heat{}).SVG() != "" {
		t.Error("nothing is drawn as something")
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	var v float64
	if err := xml.Unmarshal([]byte("<v>"+s+"</v>"), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestShade(t *testing.T) {
	for _, low := range []bool{false, true} {
		h := Heat{Values: [][]float64{{0, 10, 40, 2.5, 400}}, Middle: func(int, int) float64 { return 10 }, LowIsGood: low}
		best, worst := h.shade(0, 2), h.shade(0, 3)
		if low {
			best, worst = worst, best
		}
		if h.shade(0, 1) != shades[heatLevels] || best != shades[2*heatLevels] || worst != shades[0] {
			t.Errorf("low is good: %v: middle %s, best %s, worst %s", low, h.shade(0, 1), best, worst)
		}
	}
}
