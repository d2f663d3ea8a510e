package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Line is one curve.
type Line struct {
	Name   string
	Xs, Ys []float64
}

// Chart is curves over one pair of axes. A logarithmic axis leaves out values
// that are not positive; its X ticks are the curves' own values.
type Chart struct {
	Title      string
	Lines      []Line
	LogX, LogY bool
	FromZero   bool // the linear Y axis begins at 0
}

const (
	width, height            = 640, 240
	left, right, top, bottom = 64, 170, 30, 30
)

var colours = []string{"#3b6ea5", "#c2571a", "#4c8c4a", "#8a5a9e", "#777777", "#b0902c"}

// axis places values between two pixels.
type axis struct {
	log      bool
	min, max float64 // of values, or their logarithms
	from, to float64 // pixels
}

func newAxis(log, zero bool, values []float64, from, to float64) axis {
	a := axis{log: log, min: math.Inf(1), max: math.Inf(-1), from: from, to: to}
	for _, v := range values {
		a.min, a.max = min(a.min, a.value(v)), max(a.max, a.value(v))
	}
	if len(values) == 0 {
		a.min, a.max = 0, 1
	}
	if zero && !log {
		a.min = min(a.min, 0)
	}
	return a
}

func (a *axis) value(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

// pad widens the axis by a share of it, or a little where it has no length.
func (a *axis) pad(share float64, low bool) {
	by := (a.max - a.min) * share
	if a.max == a.min {
		by = math.Max(1e-6, math.Abs(a.max)*0.01)
	}
	a.max += by
	if low {
		a.min -= by
	}
}

func (a *axis) at(v float64) float64 {
	return a.from + (a.value(v)-a.min)/(a.max-a.min)*(a.to-a.from)
}

// SVG draws the chart at a fixed size.
func (c *Chart) SVG() string {
	var xs, ys []float64
	lines := make([]Line, 0, len(c.Lines))
	for _, l := range c.Lines {
		drawn := Line{Name: l.Name}
		for i := range l.Xs {
			if !(c.LogX && l.Xs[i] <= 0 || c.LogY && l.Ys[i] <= 0) {
				drawn.Xs, drawn.Ys = append(drawn.Xs, l.Xs[i]), append(drawn.Ys, l.Ys[i])
			}
		}
		if len(drawn.Xs) > 0 {
			lines = append(lines, drawn)
			xs, ys = append(xs, drawn.Xs...), append(ys, drawn.Ys...)
		}
	}
	x := newAxis(c.LogX, false, xs, left, width-right)
	if x.max == x.min {
		x.min, x.max = x.min-0.5, x.max+0.5
	}
	y := newAxis(c.LogY, c.FromZero, ys, height-bottom, top)
	y.pad(0.05, !c.FromZero || c.LogY)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" width="%d" role="img" aria-label="%s" font-family="system-ui,sans-serif" font-size="12">`, width, height, width, html.EscapeString(c.Title))
	fmt.Fprintf(&b, `<text x="%d" y="18" font-size="14">%s</text>`, left, html.EscapeString(c.Title))
	c.ticks(&b, x, y, xs)
	for n, l := range lines {
		l.draw(&b, x, y, n)
	}
	b.WriteString(`</svg>`)
	return b.String()
}

func (c *Chart) ticks(b *strings.Builder, x, y axis, xs []float64) {
	const ticks = 4
	for i := range ticks + 1 {
		v := y.min + (y.max-y.min)*float64(i)/ticks
		if c.LogY {
			v = math.Pow(10, v)
		}
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e3e3e3"/><text x="%d" y="%.1f" text-anchor="end" fill="#666">%s</text>`,
			left, width-right, y.at(v), y.at(v), left-6, y.at(v)+4, tick(v))
	}
	label := func(v float64) {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#666">%s</text>`, x.at(v), height-10, short(v))
	}
	if c.LogX {
		seen := map[float64]bool{}
		for _, v := range xs {
			if !seen[v] {
				seen[v] = true
				label(v)
			}
		}
		return
	}
	step := max(1, int(math.Ceil((x.max-x.min)/12)))
	for v := int(math.Ceil(x.min)); float64(v) <= x.max; v += step {
		label(float64(v))
	}
}

// tick writes a value on the Y axis.
func tick(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// short writes sizes as people do: 4K is 4096.
func short(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1 << 30, "G"}, {1 << 20, "M"}, {1 << 10, "K"}} {
		if v >= u.size && math.Mod(v, u.size) == 0 {
			return strconv.FormatFloat(v/u.size, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// draw draws the curve, its name beside its own line of the legend.
func (l *Line) draw(b *strings.Builder, x, y axis, n int) {
	colour := colours[n%len(colours)]
	var points []string
	for i := range l.Xs {
		points = append(points, fmt.Sprintf("%.1f,%.1f", x.at(l.Xs[i]), y.at(l.Ys[i])))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`, x.at(l.Xs[i]), y.at(l.Ys[i]), colour)
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), colour)
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s">%s</text>`, width-right+12, top+10+16*n, colour, html.EscapeString(l.Name))
}
