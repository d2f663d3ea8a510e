package sparse

import (
	"fmt"
	"hash/crc32"
	"slices"

	"psrt/bench/report"
	"psrt/rdma/mem"
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
			Load: report.Load(), Checksum: fmt.Sprintf("%08x", sum),
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
		factors = append(factors, row.Latency.Typical/rows[0].Latency.Typical)
	}
	return fmt.Sprintf("rows of %d floats: psrt is %.2f to %.2f times as fast as the rivals", dim, slices.Min(factors), slices.Max(factors))
}

func notes(c *Config) []string {
	limit := "limit: probe and gather of the same rows inside one process"
	wire := fmt.Sprintf("psrt asks with %d bytes of keys a row; what answers is the values alone", 8)
	if c.Op == "push" {
		limit = "limit: the optimizer's scatter loop over the same rows inside one process, their places known"
		wire = "psrt pushes by the ticket of the pull: gradients alone, no keys; the rival sends 8 bytes of key a row as well"
	}
	return []string{
		limit,
		fmt.Sprintf("one batch is %d distinct keys, drawn evenly from %d rows; times are until the server has done it", c.Keys, c.Rows),
		wire,
		"the server is another process of this machine; all sides end with the same rows (checksum)",
	}
}
