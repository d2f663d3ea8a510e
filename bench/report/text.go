package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// column is one column of the table and of the CSV.
type column struct {
	name   string
	digits int // after the point in the table
	value  func(*Row) float64
}

// text shows small figures with three digits that count.
func (c column) text(v float64) string {
	digits := c.digits
	for small := v; digits >= 3 && small > 0 && small < 0.1 && digits < 7; small *= 10 {
		digits++
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

var latencyColumns = []column{
	{"t_min[us]", 3, latencies(func(l *Latency) float64 { return l.Min })},
	{"t_typical[us]", 3, latencies(func(l *Latency) float64 { return l.Typical })},
	{"t_avg[us]", 3, latencies(func(l *Latency) float64 { return l.Avg })},
	{"t_99[us]", 3, latencies(func(l *Latency) float64 { return l.P99 })},
	{"t_99.9[us]", 3, latencies(func(l *Latency) float64 { return l.P999 })},
	{"limit[us]", 3, func(r *Row) float64 { return r.limit(r.Latency != nil) }},
}

var bandwidthColumns = []column{
	{"avg[GB/s]", 3, bandwidths(func(b *Bandwidth) float64 { return b.Avg })},
	{"peak[GB/s]", 3, bandwidths(func(b *Bandwidth) float64 { return b.Peak })},
	{"rate[M/s]", 3, bandwidths(func(b *Bandwidth) float64 { return b.Rate })},
	{"limit[GB/s]", 3, func(r *Row) float64 { return r.limit(r.Latency == nil) }},
	{"bulk[GB/s]", 3, func(r *Row) float64 { return r.BulkLimit }},
}

// Rows of pairs are of both kinds; the other kind's columns are 0 then.
func latencies(f func(*Latency) float64) func(*Row) float64 {
	return func(r *Row) float64 {
		if r.Latency == nil {
			return 0
		}
		return f(r.Latency)
	}
}

func bandwidths(f func(*Bandwidth) float64) func(*Row) float64 {
	return func(r *Row) float64 {
		if r.Bandwidth == nil {
			return 0
		}
		return f(r.Bandwidth)
	}
}

// limit is the row's where it is in the unit of the column.
func (r *Row) limit(mine bool) float64 {
	if !mine {
		return 0
	}
	return r.Limit
}

var commonColumns = []column{
	{"ratio", 2, func(r *Row) float64 { return r.Ratio }},
	{"cpu[s/GB]", 3, func(r *Row) float64 { return r.CPUSecondsPerGB }},
	{"load", 2, func(r *Row) float64 { return r.Load }},
}

// rivalColumns are shown where another program took turns; rows without it
// have 0 there.
var rivalColumns = []column{
	{"rival", 3, rivals(func(v *Rival) float64 { return v.Value })},
	{"/rival", 2, rivals(func(v *Rival) float64 { return v.Ratio })},
	{"min", 2, rivals(func(v *Rival) float64 { return v.Least })},
	{"q1", 2, rivals(func(v *Rival) float64 { return v.Lower })},
	{"q3", 2, rivals(func(v *Rival) float64 { return v.Upper })},
	{"max", 2, rivals(func(v *Rival) float64 { return v.Most })},
	{"limit/rival", 2, rivals(func(v *Rival) float64 { return v.Limit })},
	{"limit min", 2, rivals(func(v *Rival) float64 { return v.LimitLeast })},
	{"limit max", 2, rivals(func(v *Rival) float64 { return v.LimitMost })},
}

func rivals(f func(*Rival) float64) func(*Row) float64 {
	return func(r *Row) float64 {
		if r.Rival == nil {
			return 0
		}
		return f(r.Rival)
	}
}

// columns are those of this report: all its rows are of one kind, but for those
// of pairs and of chains.
func (r *Report) columns() []column {
	if r.Fabric != nil {
		return slices.Concat(latencyColumns, bandwidthColumns, commonColumns, pairColumns)
	}
	if len(r.Rows) > 0 && r.Rows[0].Chain != nil {
		return slices.Concat(latencyColumns, bandwidthColumns, commonColumns, chainColumns)
	}
	special := bandwidthColumns
	if len(r.Rows) > 0 && r.Rows[0].Latency != nil {
		special = latencyColumns
	}
	all := append(append([]column{}, special...), commonColumns...)
	if len(r.Rows) > 0 && r.Rows[0].Collective != nil {
		all = slices.Concat(collectiveColumns, all)
	}
	if len(r.Rows) > 0 && r.Rows[0].FanIn != nil {
		all = append(all, fanInColumns...)
	}
	for i := range r.Rows {
		if r.Rows[i].Rival != nil {
			return append(all, rivalColumns...)
		}
	}
	return all
}

// Text writes the table for people.
func (r *Report) Text(w io.Writer) error {
	if r.Fabric != nil {
		return r.fabricText(w)
	}
	m := r.Machine
	fmt.Fprintf(w, "# %s over %s, %s, %s (%.12s), seed %d\n", r.Suite, r.Transport, r.Time.UTC().Format(time.RFC3339), r.Program, r.Commit, r.Seed)
	fmt.Fprintf(w, "# %s, %d CPUs, Linux %s, device %s\n", m.CPU, m.CPUs, m.Kernel, m.Device)
	cols := r.columns()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	names := []string{"op", "bytes", "iterations"}
	for _, c := range cols {
		names = append(names, c.name)
	}
	line := func(cells []string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }
	line(append(names, "checksum"))
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := []string{row.Op, strconv.Itoa(row.Bytes), strconv.Itoa(row.Iterations)}
		for _, c := range cols {
			v := c.value(row)
			if v == 0 && (c.name == "bulk[GB/s]" || c.name == "cpu[s/GB]") { // not measured
				cells = append(cells, "-")
				continue
			}
			cells = append(cells, c.text(v))
		}
		line(append(cells, row.Checksum))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range r.Notes {
		if _, err := fmt.Fprintln(w, "# "+n); err != nil {
			return err
		}
	}
	return nil
}

// CSV writes a header line and one line a row, with every column of the table.
func (r *Report) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	cols := r.columns()
	cells := []string{"suite", "transport", "op", "bytes", "iterations"}
	for _, col := range cols {
		cells = append(cells, col.name)
	}
	if err := c.Write(append(cells, "checksum")); err != nil {
		return err
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := []string{r.Suite, r.Transport, row.Op, strconv.Itoa(row.Bytes), strconv.Itoa(row.Iterations)}
		for _, col := range cols {
			cells = append(cells, strconv.FormatFloat(col.value(row), 'g', 6, 64))
		}
		if err := c.Write(append(cells, row.Checksum)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
