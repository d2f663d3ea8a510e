package dense

import (
	"fmt"

	"psrt/bench/child"
	"psrt/bench/limits"
)

// Config of one run.
type Config struct {
	Transport string // as dial's
	Bytes     int    // of the vector
	Workers   []int  // pushing together; each is measured in turn
	Sources   int    // of the sums without a server
	Steps     int    // per round
	Rounds    int
	Seed      uint64
	Child     child.Command // the program again, calling Serve
}

const (
	maxBytes   = 1 << 30
	maxWorkers = 64
	maxSteps   = 1 << 12
	maxRounds  = 1000
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	if c.Bytes%64 != 0 {
		return fmt.Errorf("dense: a vector of %d bytes, want whole lines of 64", c.Bytes)
	}
	return limits.Check("dense", append(limits.Each(c.Workers, "workers", 1, maxWorkers),
		limits.Limit{Value: c.Bytes, What: "bytes of the vector", Least: 64, Most: maxBytes},
		limits.Limit{Value: c.Sources, What: "sources", Least: 1, Most: maxWorkers},
		limits.Limit{Value: c.Steps, What: "steps a round", Least: 1, Most: maxSteps},
		limits.Limit{Value: c.Rounds, What: "rounds", Least: 1, Most: maxRounds})...)
}

// rate keeps sums of small whole gradients exact in float32.
const rate = 0.5
