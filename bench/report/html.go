package report

import (
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"

	"psrt/bench/chart"
)

// HTML writes a page that needs nothing but itself: the table, and curves where
// rows differ by size or by the number of workers.
func (r *Report) HTML(w io.Writer) error {
	p := page{Report: r, When: r.Time.UTC().Format(time.RFC3339), Columns: []string{"op", "bytes", "iterations"}}
	columns := r.columns()
	for _, c := range columns {
		p.Columns = append(p.Columns, c.name)
	}
	p.Columns = append(p.Columns, "checksum")
	rows := r.Rows
	if r.Fabric != nil {
		p.Findings = r.Fabric.Findings()
		p.Hosts = r.Fabric.lines()
		rows = r.worstFirst(pageRows)
		for _, h := range r.heats() {
			p.Charts = append(p.Charts, template.HTML(h.SVG()))
		}
	}
	for i := range rows {
		row := &rows[i]
		cells := []string{row.Op, strconv.Itoa(row.Bytes), strconv.Itoa(row.Iterations)}
		for _, c := range columns {
			if v := c.value(row); v == 0 {
				cells = append(cells, "-")
			} else {
				cells = append(cells, c.text(v))
			}
		}
		p.Lines = append(p.Lines, append(cells, row.Checksum))
	}
	for _, c := range r.charts() {
		p.Charts = append(p.Charts, template.HTML(c.SVG()))
	}
	return pageTemplate.Execute(w, p)
}

type page struct {
	*Report
	When    string
	Columns []string
	Lines   [][]string
	Charts  []template.HTML
	// Of ranks only.
	Findings, Hosts []string
}

func (r *Report) charts() []chart.Chart {
	if len(r.Rows) == 0 || r.Fabric != nil {
		return nil
	}
	var all []chart.Chart
	draw := func(c chart.Chart, curves ...curve) {
		if c.Lines = r.lines(curves); len(c.Lines) > 0 {
			c.LogX = true
			all = append(all, c)
		}
	}
	limit := curve{"limit", func(r *Row) float64 { return r.Limit }}
	switch {
	case r.Rows[0].FanIn != nil:
		draw(chart.Chart{Title: "goodput by workers, GB/s", FromZero: true}, bandwidth, limit)
		draw(chart.Chart{Title: "256 B pulls beside the pushes by workers, p99 us", LogY: true},
			curve{"p99", func(r *Row) float64 { return r.FanIn.PullP99 }}, curve{"bound", func(r *Row) float64 { return r.FanIn.Bound }})
		draw(chart.Chart{Title: "fairness by workers, Jain's index", FromZero: true}, curve{"", func(r *Row) float64 { return r.FanIn.Jain }})
	case r.Rows[0].Latency != nil:
		draw(chart.Chart{Title: "median by size, us", LogY: true}, curve{"", func(r *Row) float64 { return r.Latency.Typical }}, limit)
		draw(chart.Chart{Title: "p99 by size, us", LogY: true}, curve{"", func(r *Row) float64 { return r.Latency.P99 }})
	default:
		draw(chart.Chart{Title: "bandwidth by size, GB/s", FromZero: true}, bandwidth, limit)
	}
	draw(chart.Chart{Title: "share of the limit", FromZero: true}, curve{"", func(r *Row) float64 { return r.Ratio }})
	return all
}

// curve is one of a row's values.
type curve struct {
	name  string
	value func(*Row) float64
}

var bandwidth = curve{"", func(r *Row) float64 { return r.Bandwidth.Avg }}

// lines are the curves of each kind of row that there is at more than one size
// or number of workers.
func (r *Report) lines(curves []curve) []chart.Line {
	var order []string
	rows := map[string][]*Row{}
	for i := range r.Rows {
		row := &r.Rows[i]
		kind := row.Op
		if row.FanIn != nil {
			kind = row.FanIn.Mode
		}
		if rows[kind] == nil {
			order = append(order, kind)
		}
		rows[kind] = append(rows[kind], row)
	}
	var lines []chart.Line
	for _, kind := range order {
		for _, c := range curves {
			l := chart.Line{Name: strings.TrimSpace(kind + " " + c.name)}
			for _, row := range rows[kind] {
				x, y := float64(row.Bytes), c.value(row)
				if row.FanIn != nil {
					x = float64(row.FanIn.Workers)
				}
				if y > 0 {
					l.Xs, l.Ys = append(l.Xs, x), append(l.Ys, y)
				}
			}
			if len(l.Xs) > 1 {
				lines = append(lines, l)
			}
		}
	}
	return lines
}

var pageTemplate = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>psbench {{.Suite}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:80rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}.note{color:#666}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem}td,th{padding:.2rem .7rem;text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td:first-child,th:first-child{text-align:left}tr+tr{border-top:1px solid #eee}svg{max-width:100%;height:auto;display:block;margin:1rem 0}
</style></head><body>
<h1>psbench {{.Suite}} over {{.Transport}}</h1>
<p class="note">{{.When}} · {{.Program}} {{.Commit}} · seed {{.Seed}} · {{.Machine.CPU}}, {{.Machine.CPUs}} CPUs, Linux {{.Machine.Kernel}}, device {{.Machine.Device}}, {{.Machine.Go}}</p>
{{range .Findings}}<p><strong>{{.}}</strong></p>
{{end}}{{range .Charts}}{{.}}{{end}}
{{range .Hosts}}<p class="note">{{.}}</p>
{{end}}<div class="wide"><table><tr>{{range .Columns}}<th>{{.}}</th>{{end}}</tr>
{{range .Lines}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table></div>
{{range .Notes}}<p class="note">{{.}}</p>
{{end}}</body></html>
`))
