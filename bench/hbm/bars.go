package hbm

import (
	"fmt"
	"strings"

	"psrt/bench/report"
)

// What a card is wanted to reach, of its limit's speed in the same run, with batches of
// barRows rows of barDim floats.
const (
	barRows, barDim = 1 << 20, 64

	leastFind   = .7
	leastFill   = .9
	leastUpdate = .7
	mostMisses  = 1.05 // steps with misses, in steps without
)

// bars says of each whether it was reached.
func bars(c *Config, rows []report.Row) (said []string) {
	for _, r := range rows {
		least := 0.
		switch {
		case r.Op == "find and gather":
			least = leastFind
		case r.Op == "fill":
			least = leastFill
		case strings.HasPrefix(r.Op, "update"):
			least = leastUpdate
		case strings.HasSuffix(r.Op, "ahead"):
			least = 1 / mostMisses
		default:
			continue
		}
		is := "met"
		if r.Ratio < least {
			is = "short"
		}
		said = append(said, fmt.Sprintf("bar: %s: %.3f of its limit, wanted %.3f: %s", r.Op, r.Ratio, least, is))
	}
	if c.Rows != barRows || c.Dim != barDim {
		said = append(said, fmt.Sprintf("bars are of %d rows of %d floats: this run says nothing of them", barRows, barDim))
	}
	return said
}
