package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Heat is a square of figures, one for each ordered pair: rows are From,
// columns are To.
type Heat struct {
	Title string
	// Values by row and column. NaN is a figure that is not there and should
	// be; the diagonal is not looked at.
	Values [][]float64
	// Middle gives the figure that is neither good nor bad at a place.
	Middle func(row, column int) float64
	// LowIsGood as of times.
	LowIsGood bool
	// Marked places get a frame.
	Marked func(row, column int) bool
}

const (
	heatSide    = 480
	heatLeft    = 48
	heatTop     = 48
	heatLevels  = 5 // on either side of the middle
	heatNumbers = 12
	heatTitles  = 64 // rows up to which every place has a title of its own
)

// shades from much worse than the middle to much better.
var shades = [2*heatLevels + 1]string{
	"#a50f15", "#cb2a1d", "#e6553a", "#f6905f", "#fcc9a0",
	"#f3f3ee",
	"#d5e6f1", "#a9cde4", "#73aed3", "#4288bd", "#2a6399",
}

const heatMissing = "#222222"

// shade of a figure: each level is a further factor of 1.32, so that the
// outermost are four times the middle and beyond.
func (h *Heat) shade(row, column int) string {
	v, m := h.Values[row][column], h.Middle(row, column)
	switch {
	case math.IsNaN(v) || v <= 0:
		return heatMissing
	case m <= 0:
		return shades[heatLevels]
	}
	x := math.Log(v/m) / math.Log(4) * heatLevels
	if h.LowIsGood {
		x = -x
	}
	level := int(math.Round(math.Max(-heatLevels, math.Min(heatLevels, x))))
	return shades[heatLevels+level]
}

// SVG draws the square. Neighbours of one shade are one rectangle where there
// are many.
func (h *Heat) SVG() string {
	n := len(h.Values)
	if n == 0 {
		return ""
	}
	cell := math.Max(2, math.Min(40, heatSide/float64(n)))
	side := cell * float64(n)
	wide, high := math.Max(side+heatLeft+20, width), side+heatTop+30
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" width="%.0f" role="img" aria-label="%s" font-family="system-ui,sans-serif" font-size="11">`, wide, high, wide, html.EscapeString(h.Title))
	fmt.Fprintf(&b, `<text x="%d" y="18" font-size="14">%s</text>`, heatLeft, html.EscapeString(h.Title))
	h.axes(&b, n, cell)
	for row := range n {
		for from := 0; from < n; {
			if from == row {
				from++
				continue
			}
			shade, to := h.shade(row, from), from+1
			for n > heatTitles && to < n && to != row && h.shade(row, to) == shade {
				to++
			}
			h.place(&b, row, from, to, cell, shade)
			from = to
		}
	}
	for row := range n {
		for column := range n {
			if row != column && h.Marked != nil && h.Marked(row, column) {
				fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="none" stroke="#000" stroke-width="%.1f"/>`,
					heatLeft+float64(column)*cell, heatTop+float64(row)*cell, cell, cell, math.Min(2, cell/4))
			}
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%.0f" fill="#666">blue is better than the median of its kind, red worse; dark: not reached; framed: outlier</text></svg>`, heatLeft, high-10)
	return b.String()
}

// place draws the columns from to to-1 of a row.
func (h *Heat) place(b *strings.Builder, row, from, to int, cell float64, shade string) {
	x, y := heatLeft+float64(from)*cell, heatTop+float64(row)*cell
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s">`, x, y, cell*float64(to-from), cell, shade)
	n := len(h.Values)
	if n <= heatTitles {
		text := "not reached"
		if shade != heatMissing {
			text = strconv.FormatFloat(h.Values[row][from], 'g', 4, 64)
		}
		fmt.Fprintf(b, `<title>%d to %d: %s</title>`, row, from, text)
	}
	b.WriteString(`</rect>`)
	if n <= heatNumbers && shade != heatMissing {
		fill := "#222"
		if shade == shades[0] || shade == shades[1] || shade == shades[len(shades)-1] || shade == shades[len(shades)-2] {
			fill = "#fff"
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="%s">%s</text>`, x+cell/2, y+cell/2+4, fill, strconv.FormatFloat(h.Values[row][from], 'g', 3, 64))
	}
}

func (h *Heat) axes(b *strings.Builder, n int, cell float64) {
	step := max(1, int(math.Ceil(24/cell)))
	for i := 0; i < n; i += step {
		at := (float64(i) + 0.5) * cell
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#666">%d</text>`, heatLeft+at, heatTop-6, i)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end" fill="#666">%d</text>`, heatLeft-6, heatTop+at+4, i)
	}
}
