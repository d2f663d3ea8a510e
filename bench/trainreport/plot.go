package trainreport

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// line is one curve.
type line struct {
	name   string
	xs, ys []float64
}

const (
	width, height            = 640, 240
	left, right, top, bottom = 60, 80, 30, 30
)

var colours = []string{"#3b6ea5", "#c2571a"}

// plot draws curves as an SVG of fixed size.
func plot(title string, lines []line) string {
	minX, maxX, minY, maxY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for i := range l.xs {
			minX, maxX = min(minX, l.xs[i]), max(maxX, l.xs[i])
			minY, maxY = min(minY, l.ys[i]), max(maxY, l.ys[i])
		}
	}
	if maxX == minX {
		minX, maxX = minX-0.5, maxX+0.5
	}
	pad := (maxY - minY) * 0.05
	if pad == 0 {
		pad = math.Max(1e-6, math.Abs(maxY)*0.01)
	}
	minY, maxY = minY-pad, maxY+pad
	px := func(x float64) float64 { return left + (x-minX)/(maxX-minX)*(width-left-right) }
	py := func(y float64) float64 { return top + (maxY-y)/(maxY-minY)*(height-top-bottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" width="%d" role="img" aria-label="%s" font-family="system-ui,sans-serif" font-size="12">`, width, height, width, html.EscapeString(title))
	fmt.Fprintf(&b, `<text x="%d" y="18" font-size="14">%s</text>`, left, html.EscapeString(title))
	const ticks = 4
	for i := range ticks + 1 {
		y := minY + (maxY-minY)*float64(i)/ticks
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e3e3e3"/><text x="%d" y="%.1f" text-anchor="end" fill="#666">%.4f</text>`,
			left, width-right, py(y), py(y), left-6, py(y)+4, y)
	}
	step := max(1, int(math.Ceil((maxX-minX)/12)))
	for x := int(math.Ceil(minX)); float64(x) <= maxX; x += step {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#666">%d</text>`, px(float64(x)), height-10, x)
	}
	for n, l := range lines {
		colour := colours[n%len(colours)]
		var points []string
		for i := range l.xs {
			points = append(points, fmt.Sprintf("%.1f,%.1f", px(l.xs[i]), py(l.ys[i])))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`, px(l.xs[i]), py(l.ys[i]), colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), colour)
		end := len(l.ys) - 1
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="%s">%s</text>`, px(l.xs[end])+8, py(l.ys[end])+4, colour, html.EscapeString(l.name))
	}
	b.WriteString(`</svg>`)
	return b.String()
}
