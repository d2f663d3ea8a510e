package ssd

import (
	"fmt"

	"psrt/tiers/table"
)

// Config of one run.
type Config struct {
	Dirs     []string // of our log, of the rival and of the limit's file; each makes a folder of its own
	Rows     int
	Dim      int   // floats of a row; its optimizer has as many again
	Memory   int64 // bytes, of each side
	Keys     int   // of a batch
	Batches  int   // of a round
	Rounds   int
	InFlight int // batches under way at a time, as a lane has requests that wait
	Pebble   bool
	Only     []string // operations by name; empty: all
	Seed     uint64
}

const (
	maxRows    = 1 << 31
	maxKeys    = 1 << 20
	maxBatches = 1 << 16
	maxRounds  = 1000
	maxFlight  = 256
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case len(c.Dirs) == 0:
		return fmt.Errorf("ssd: no directory; give at least one, on the disk to measure")
	case c.Keys < 1 || c.Keys > maxKeys:
		return fmt.Errorf("ssd: %d keys a batch, want 1 to %d", c.Keys, maxKeys)
	case c.Rows < 2*c.Keys || c.Rows > maxRows:
		return fmt.Errorf("ssd: %d rows, want at least two batches of %d and at most %d", c.Rows, c.Keys, maxRows)
	case c.Batches < 1 || c.Batches > maxBatches:
		return fmt.Errorf("ssd: %d batches a round, want 1 to %d", c.Batches, maxBatches)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("ssd: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	case c.InFlight < 1 || c.InFlight > maxFlight:
		return fmt.Errorf("ssd: %d batches in flight, want 1 to %d", c.InFlight, maxFlight)
	case c.Memory < 1<<20:
		return fmt.Errorf("ssd: %d bytes of memory, want at least %d", c.Memory, 1<<20)
	}
	return c.spec().Validate()
}

func (c *Config) spec() table.Spec {
	return table.Spec{Name: "rows", ID: 1, Dim: c.Dim, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
}

// rowBytes is a whole row: weights and optimizer state.
func (c *Config) rowBytes() int { s := c.spec(); return s.RowBytes() }
