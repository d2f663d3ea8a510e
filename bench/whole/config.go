package whole

import (
	"fmt"
	"time"

	"psrt/bench/cable"
	"psrt/bench/child"
	"psrt/sched/compress"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// Config of one run.
type Config struct {
	Model  model.Spec // Fields, Task, Seed and MeanLabel are the run's
	Fields int
	Vocab  uint64
	Zipf   float64
	Batch  int
	Steps  int // of each turn
	Rounds int
	Seed   uint64
	// Compress are ways of sending gradients that take turns, too.
	Compress []compress.Choice
	// Crew, if not 0, is how many workers train together, each for itself and all as one
	// host (--combine), which take turns, too.
	Crew int
	Dir  string // for the data; made by the caller

	Link       string // cable.Veth or cable.None
	RateBits   int64  // per second, each way; 0: so that LinkShare holds
	LinkShare  float64
	QueueBytes int // that either end of the cable holds

	// Part is the program again: with a role as its last argument it must call
	// ServePart.
	Part child.Command
}

const (
	maxSteps    = 100_000
	maxRounds   = 1000
	maxCompress = 8
	maxCrew     = 16
	minRateBits = 1_000_000
	maxRateBits = 100_000_000_000
	minQueue    = 16 << 10
	maxQueue    = 1 << 30
	patience    = 2 * time.Minute // with another process's word, a job's included
	// rate of descent, of rows and of dense parameters.
	rate = 0.1
)

// optimizer is the rival's, which has no other.
var optimizer = table.Optimizer{Kind: table.SGD, LR: rate}

// Check refuses what cannot be run.
func (c *Config) Check() error {
	bad := func(format string, args ...any) error { return fmt.Errorf("whole: "+format, args...) }
	switch {
	case c.Link != cable.Veth && c.Link != cable.None:
		return bad("link %q, want %s or %s", c.Link, cable.Veth, cable.None)
	case c.Link == cable.None && c.RateBits != 0:
		return bad("a rate of %d bit/s without a link of its own, want --link %s", c.RateBits, cable.Veth)
	case c.RateBits != 0 && (c.RateBits < minRateBits || c.RateBits > maxRateBits):
		return bad("a rate of %d bit/s, want %d to %d, or none for one that is measured", c.RateBits, minRateBits, int64(maxRateBits))
	case !(c.LinkShare > 0 && c.LinkShare <= 10):
		return bad("a link that takes %g of a step, want more than 0 and at most 10", c.LinkShare)
	case c.QueueBytes < minQueue || c.QueueBytes > maxQueue:
		return bad("a queue of %d bytes, want %d to %d", c.QueueBytes, minQueue, maxQueue)
	case c.Steps < 2 || c.Steps > maxSteps:
		return bad("%d steps, want 2 to %d", c.Steps, maxSteps)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return bad("%d rounds, want 1 to %d", c.Rounds, maxRounds)
	case len(c.Compress) > maxCompress:
		return bad("%d ways of compressing, want at most %d", len(c.Compress), maxCompress)
	case c.Crew != 0 && (c.Crew < 2 || c.Crew > maxCrew):
		return bad("%d workers as one host, want 2 to %d, or 0 for none", c.Crew, maxCrew)
	case c.Batch < 1:
		return bad("a batch of %d, want at least 1", c.Batch)
	case c.Dir == "":
		return bad("no directory for the data")
	}
	for _, choice := range c.Compress {
		if err := choice.Check(); err != nil {
			return fmt.Errorf("whole: %w", err)
		}
	}
	spec := c.spec(0.5)
	return spec.Validate()
}

// spec is the model's, once the data are known.
func (c *Config) spec(meanLabel float64) model.Spec {
	s := c.Model
	s.Fields, s.Task, s.Seed, s.MeanLabel = c.Fields, model.CTR, c.Seed, meanLabel
	return s
}
