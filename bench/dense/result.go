package dense

import (
	"fmt"
	"hash/crc32"
	"slices"

	"psrt/bench/report"
	"psrt/rdma/mem"
)

func (r *run) rows(figures []*figure, sums map[*team]uint32) []report.Row {
	r.sums.onePass()
	ofSum := crc32.ChecksumIEEE(mem.Bytes(r.sums.dst))
	var rows []report.Row
	for _, f := range figures {
		sum := ofSum
		if f.team != nil {
			sum = sums[f.team]
		}
		typical := median(f.gbs)
		rows = append(rows, report.Row{
			Op: f.op, Bytes: f.bytes, Iterations: f.plays, Limit: median(f.limits), Ratio: median(f.ratios),
			Bandwidth:       &report.Bandwidth{Avg: typical, Peak: slices.Max(f.gbs), Rate: typical * 1e3 / float64(f.bytes)},
			CPUSecondsPerGB: median(f.cpu), Load: report.Load(), Checksum: fmt.Sprintf("%08x", sum),
		})
	}
	return rows
}

func notes(c *Config) []string {
	return []string{
		"limit of a sum: a scan that only reads the same bytes; of a push: memcpy of 64 MiB; ratio: share of it, median of rounds in which both take turns",
		"copy, then add: each source is copied out of its buffer first, then added by the same kernel",
		fmt.Sprintf("a push is a vector of %d bytes of each worker; all are in the server's values, by its optimizer, when it is over", c.Bytes),
		"sum-off: the server is told of the vectors, which count for nothing; where memory is mapped it then moves none of their bytes",
		"avg: the median; the sums are bit-exact in the naive order, the values after all pushes exact (checksum)",
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
