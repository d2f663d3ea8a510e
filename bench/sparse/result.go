package sparse

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"psrt/bench/report"
	"psrt/bench/rival"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
)

// equal pulls the last batch from every side: after the same pushes all must
// hold the same values, bit for bit. The checksum is of them.
func (r *run) equal(l *load) (uint32, error) {
	keys := l.keys[len(l.keys)-1]
	var want uint32
	for i, s := range r.sides {
		v, err := s.values(keys)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", s.name(), err)
		}
		sum := crc32.ChecksumIEEE(mem.Bytes(v))
		if i == 0 {
			want = sum
		} else if sum != want {
			return 0, fmt.Errorf("sparse: after the same pushes %s holds other rows than %s (%08x, %08x): a push was lost or applied twice", s.name(), r.sides[0].name(), sum, want)
		}
	}
	return want, nil
}

func (r *run) rows(dim int, medians []times, whole []report.Histogram, sum uint32) []report.Row {
	pick := func(t times) []float64 {
		if r.cfg.Op == "pull" {
			return t.pull
		}
		return t.push
	}
	limit := pick(medians[0])
	var rows []report.Row
	for k := 1; k < len(r.sides); k++ {
		mine := pick(medians[k])
		ratios := make([]float64, len(mine))
		for i := range mine {
			ratios[i] = limit[i] / mine[i]
		}
		row := report.Row{
			Op: fmt.Sprintf("%s of %d floats, %s", r.cfg.Op, dim, r.sides[k].name()), Bytes: r.cfg.Keys * dim * 4,
			Iterations: r.cfg.Rounds * r.cfg.Batches, Latency: whole[k].Latency(), Limit: median(limit), Ratio: median(ratios),
			CPUSecondsPerGB: median(medians[k].cpu), Load: report.Load(), Checksum: fmt.Sprintf("%08x", sum),
		}
		row.Latency.Typical = median(mine)
		rows = append(rows, row)
	}
	return rows
}

// compared says how many times faster psrt is than the slowest and the fastest
// rival.
func compared(dim int, rows []report.Row) string {
	var factors []float64
	for _, row := range rows[1:] {
		if strings.Contains(row.Op, "rival") {
			factors = append(factors, row.Latency.Typical/rows[0].Latency.Typical)
		}
	}
	return fmt.Sprintf("rows of %d floats: psrt is %.2f to %.2f times as fast as the rivals", dim, slices.Min(factors), slices.Max(factors))
}

func notes(c *Config) []string {
	limit := "limit: probe and gather of the same rows inside one process"
	if c.Op == "push" {
		limit = "limit: the optimizer's scatter loop over the same rows inside one process, their places known"
	}
	all := []string{
		limit,
		fmt.Sprintf("one batch is %d distinct keys, drawn evenly from %d rows; times are until the server has done it", c.Keys, c.Rows),
		"the server is another process of this machine; all sides end with the same rows (checksum)",
		"cpu: of both processes, for a pull and its push, with what the worker does between them, by GB of values and gradients",
	}
	return append(all, wire(c)...)
}

// wire says what a batch sends, by the format. Where memory is mapped, requests
// and replies alone are sent; the server works on keys, values and gradients in
// place. A transport's own framing comes on top.
func wire(c *Config) []string {
	var all []string
	const key = 8
	for _, dim := range c.Dims {
		keys, values := c.Keys*key, c.Keys*dim*4
		line := func(name string, head, keys int) {
			all = append(all, fmt.Sprintf("bytes of a %s of %d floats, %s: %d = headers %d + keys %d + values %d", c.Op, dim, name, head+keys+values, head, keys, values))
		}
		heads := psmsg.RequestBytes + psmsg.ReplyBytes
		if c.Op == "push" {
			line("psrt by ticket", heads, 0)
			line("psrt by keys", heads, keys)
		} else {
			line("psrt", heads, keys)
		}
		line("rival", 2*rival.HeadBytes, keys)
	}
	return all
}
