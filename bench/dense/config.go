package dense

import (
	"fmt"

	"psrt/bench/child"
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
	switch {
	case c.Bytes < 64 || c.Bytes > maxBytes || c.Bytes%64 != 0:
		return fmt.Errorf("dense: a vector of %d bytes, want 64 to %d in whole lines of 64", c.Bytes, maxBytes)
	case c.Sources < 1 || c.Sources > maxWorkers:
		return fmt.Errorf("dense: %d sources, want 1 to %d", c.Sources, maxWorkers)
	case c.Steps < 1 || c.Steps > maxSteps:
		return fmt.Errorf("dense: %d steps a round, want 1 to %d", c.Steps, maxSteps)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("dense: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	case len(c.Workers) == 0:
		return fmt.Errorf("dense: no number of workers; give at least one")
	}
	for _, n := range c.Workers {
		if n < 1 || n > maxWorkers {
			return fmt.Errorf("dense: %d workers, want 1 to %d", n, maxWorkers)
		}
	}
	return nil
}

// rate keeps sums of small whole gradients exact in float32.
const rate = 0.5
