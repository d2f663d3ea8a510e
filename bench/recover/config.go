package recover

import (
	"fmt"

	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// Config of one run.
type Config struct {
	Dir    string
	Rows   int
	Dim    int // floats of a row; its optimizer has as many again
	Dirty  int // percent of the rows that a delta has
	Lanes  int // tables, each loaded by a goroutine of its own
	Rounds int
	Seed   uint64
	// SSD are directories, one on each device, for stores whose rows are on disk;
	// none: these are not measured.
	SSD []string
}

const (
	maxRows   = 1 << 31
	maxLanes  = 1 << 8
	maxRounds = 100
	slots     = 4096
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("recover: no directory; give one on the disk to measure")
	case c.Lanes < 1 || c.Lanes > maxLanes:
		return fmt.Errorf("recover: %d lanes, want 1 to %d", c.Lanes, maxLanes)
	case c.Rows < 100*c.Lanes || c.Rows > maxRows:
		return fmt.Errorf("recover: %d rows for %d lanes, want at least 100 for each and at most %d", c.Rows, c.Lanes, maxRows)
	case c.Dirty < 1 || c.Dirty > 100:
		return fmt.Errorf("recover: %d percent of the rows in a delta, want 1 to 100", c.Dirty)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("recover: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	}
	return c.spec().Validate()
}

func (c *Config) spec() table.Spec {
	return table.Spec{Name: "rows", ID: 1, Dim: c.Dim, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
}

// covers is what a lane has of the key space.
func (c *Config) covers(lane int) []ckpt.Range {
	return []ckpt.Range{{First: int64(lane * slots / c.Lanes), Last: int64((lane + 1) * slots / c.Lanes)}}
}

// laneOf is the lane whose slots a key is in; the high bits of a key are its
// slot.
func (c *Config) laneOf(key uint64) int {
	slot := int(key >> 52)
	lane := slot * c.Lanes / slots
	for int64(slot) < c.covers(lane)[0].First {
		lane--
	}
	for int64(slot) >= c.covers(lane)[0].Last {
		lane++
	}
	return lane
}
