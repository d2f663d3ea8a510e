package pipeline

import (
	"errors"
	"fmt"
	"time"

	"psrt/bench/child"
)

// Config of one run.
type Config struct {
	Steps     int           // of each line
	Step      time.Duration // that the slowest stage takes for a step
	Straggler bool          // the kinds of consistency beside each other, too
	Heter     bool          // and jobs with dense ranks
	Workers   int           // of those
	Sigma     float64       // of the logarithm of a step's time, of those
	Real      bool          // these kinds over a server, too, by workers that sleep
	RateBits  int64         // a second, each way, of a link over which lines run, too; 0: none
	Pushes    int           // of those, unanswered when the next step begins
	Dir       string        // for the data of small jobs; made by the caller
	Seed      uint64
	// Part is the program again: with a role as its last argument it must call ServePart.
	Part child.Command
}

// Rates that a link may have.
const (
	minRateBits = 10_000_000
	maxRateBits = 100_000_000_000
	// mostStepBytes is the most that a step moves one way.
	mostStepBytes = 128 << 20
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Steps < 50 || c.Steps > 1e6:
		return fmt.Errorf("pipeline: %d steps, want 50 to 1000000", c.Steps)
	case c.Step < time.Millisecond || c.Step > time.Second:
		return fmt.Errorf("pipeline: steps of %v, want 1ms to 1s: shorter ones are those of timers", c.Step)
	case c.Straggler && (c.Workers < 2 || c.Workers > 8):
		return fmt.Errorf("pipeline: %d workers, want 2 to 8", c.Workers)
	case c.Real && !c.Straggler:
		return errors.New("pipeline: --real says how stragglers are measured; give --straggler, too")
	case c.RateBits != 0 && (c.RateBits < minRateBits || c.RateBits > maxRateBits):
		return fmt.Errorf("pipeline: a link of %d bit/s, want %d to %d, or 0 for none", c.RateBits, minRateBits, int64(maxRateBits))
	case c.RateBits != 0 && c.RateBits/8*int64(c.Step/time.Millisecond)/1000 > mostStepBytes:
		return fmt.Errorf("pipeline: a link of %d bit/s moves more than %d MB in steps of %v, which are held several times over: take shorter --step, or a lower --rate", c.RateBits, mostStepBytes>>20, c.Step)
	case c.RateBits != 0 && (c.Pushes < 1 || c.Pushes > 4):
		return fmt.Errorf("pipeline: %d pushes unanswered, want 1 to 4", c.Pushes)
	case c.Straggler && !(c.Sigma > 0 && c.Sigma <= 2):
		return fmt.Errorf("pipeline: a sigma of %g, want more than 0 and at most 2", c.Sigma)
	}
	return nil
}
