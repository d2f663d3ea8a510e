package pipeline

import (
	"fmt"
	"time"
)

// Config of one run.
type Config struct {
	Steps     int           // of each line
	Step      time.Duration // that the slowest stage takes for a step
	Straggler bool          // the kinds of consistency beside each other, too
	Heter     bool          // and jobs with dense ranks
	Workers   int           // of those
	Sigma     float64       // of the logarithm of a step's time, of those
	Dir       string        // for the data of small jobs; made by the caller
	Seed      uint64
}

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Steps < 50 || c.Steps > 1e6:
		return fmt.Errorf("pipeline: %d steps, want 50 to 1000000", c.Steps)
	case c.Step < time.Millisecond || c.Step > time.Second:
		return fmt.Errorf("pipeline: steps of %v, want 1ms to 1s: shorter ones are those of timers", c.Step)
	case c.Straggler && (c.Workers < 2 || c.Workers > 8):
		return fmt.Errorf("pipeline: %d workers, want 2 to 8", c.Workers)
	case c.Straggler && !(c.Sigma > 0 && c.Sigma <= 2):
		return fmt.Errorf("pipeline: a sigma of %g, want more than 0 and at most 2", c.Sigma)
	}
	return nil
}
