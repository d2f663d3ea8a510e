package tables

import (
	"fmt"

	"psrt/tiers/table"
)

// Config of one run.
type Config struct {
	Keys      int    // of a batch
	Dims      []int  // floats of a row; each is measured in turn
	Rows      int    // of all lanes together
	Threads   int    // lanes, each a table with its thread
	Batches   int    // of a lane in a round
	Rounds    int    // of insert, which plays all rows, at most buildRounds
	Optimizer string // as table.Optimizer.Kind
	Seed      uint64
}

const (
	maxKeys    = 1 << 20
	maxRows    = 1 << 30
	maxThreads = 1 << 10
	maxBatches = 1 << 16
	maxRounds  = 1000

	buildRounds = 3
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Keys < 1 || c.Keys > maxKeys:
		return fmt.Errorf("tables: %d keys a batch, want 1 to %d", c.Keys, maxKeys)
	case c.Threads < 1 || c.Threads > maxThreads:
		return fmt.Errorf("tables: %d threads, want 1 to %d", c.Threads, maxThreads)
	case c.Rows < c.Keys*c.Threads || c.Rows > maxRows:
		return fmt.Errorf("tables: %d rows for %d threads, want at least the %d keys of a batch for each, and at most %d", c.Rows, c.Threads, c.Keys, maxRows)
	case c.Batches < 1 || c.Batches > maxBatches:
		return fmt.Errorf("tables: %d batches a round, want 1 to %d", c.Batches, maxBatches)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("tables: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	case len(c.Dims) == 0:
		return fmt.Errorf("tables: no row length; give at least one, in floats")
	}
	for _, d := range c.Dims {
		if d < 1 || d > table.MaxDim {
			return fmt.Errorf("tables: rows of %d floats, want 1 to %d", d, table.MaxDim)
		}
		if err := c.spec(d).Validate(); err != nil {
			return fmt.Errorf("tables: %w", err)
		}
	}
	return nil
}

// rounds of o.
func (c *Config) rounds(o *op) int {
	if o.build {
		return min(c.Rounds, buildRounds)
	}
	return c.Rounds
}

// spec of a lane's table.
func (c *Config) spec(dim int) table.Spec {
	return table.Spec{Name: fmt.Sprintf("rows-of-%d", dim), ID: uint32(dim), Dim: dim, Optimizer: table.Optimizer{Kind: c.Optimizer}}
}
