package ssd

import (
	"fmt"
	"time"

	"psrt/tiers/table"
)

// Config of one run.
type Config struct {
	Dirs     []string // of our log, of the rivals and of the limit's file; each makes a folder of its own
	Rows     int
	RowBytes int   // of a row: half weights, half optimizer state
	Memory   int64 // bytes, of each side
	Lanes    int   // that share our table; each has its own log, as in a server
	Keys     int   // of a batch
	Batches  int   // of a round
	Rounds   int
	InFlight int           // batches under way at a time, as a lane has requests that wait
	Age      float64       // rows overwritten before anything is measured, for each of the table, so that our compaction runs
	Settle   time.Duration // of each side's blind writes
	Pebble   bool
	RocksDB  time.Duration // of each of its loads; 0 leaves it out
	Devices  int           // rate-limited ones held against one of them; below 2: none
	IOPS     float64       // of each
	Only     []string      // operations by name; empty: all
	Seed     uint64
	Progress func(text string) // each note as it is made; nil: none. Called by Run alone.
}

const (
	maxRows    = 1 << 31
	maxKeys    = 1 << 20
	maxBatches = 1 << 16
	maxRounds  = 1000
	maxFlight  = 256
	maxLanes   = 64
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case len(c.Dirs) == 0:
		return fmt.Errorf("ssd: no directory; give at least one, on the disk to measure")
	case c.RowBytes < 8 || c.RowBytes%8 != 0:
		return fmt.Errorf("ssd: rows of %d bytes, want a multiple of 8: as many floats of weights as of optimizer state", c.RowBytes)
	case c.Lanes < 1 || c.Lanes > maxLanes:
		return fmt.Errorf("ssd: %d lanes, want 1 to %d", c.Lanes, maxLanes)
	case c.Keys < 1 || c.Keys > maxKeys:
		return fmt.Errorf("ssd: %d keys a batch, want 1 to %d", c.Keys, maxKeys)
	case c.Rows < 2*c.Keys*c.Lanes || c.Rows > maxRows:
		return fmt.Errorf("ssd: %d rows, want at least two batches of %d for each of %d lanes and at most %d", c.Rows, c.Keys, c.Lanes, maxRows)
	case c.Batches < c.Lanes || c.Batches > maxBatches:
		return fmt.Errorf("ssd: %d batches a round, want %d (one for each lane) to %d", c.Batches, c.Lanes, maxBatches)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("ssd: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	case c.InFlight < 1 || c.InFlight > maxFlight:
		return fmt.Errorf("ssd: %d batches in flight, want 1 to %d", c.InFlight, maxFlight)
	case c.Memory < 1<<20:
		return fmt.Errorf("ssd: %d bytes of memory, want at least %d", c.Memory, 1<<20)
	case c.Age < 0 || c.Age > 100 || c.Settle < 0 || c.RocksDB < 0:
		return fmt.Errorf("ssd: %g rows overwritten for each of the table, %v of writes, %v of RocksDB: want 0 or more, and at most 100 for the first", c.Age, c.Settle, c.RocksDB)
	case c.Devices < 0 || c.Devices > maxLanes || c.Devices > 1 && c.IOPS < 100:
		return fmt.Errorf("ssd: %d devices of %g reads a second, want at most %d of 100 or more", c.Devices, c.IOPS, maxLanes)
	}
	for _, name := range c.Only {
		if !known(name) {
			return fmt.Errorf("ssd: no operation is called %q; there are %v", name, names())
		}
	}
	return c.spec().Validate()
}

func (c *Config) spec() table.Spec {
	return table.Spec{Name: "rows", ID: 1, Dim: c.RowBytes / 8, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
}

// dim is the weights of a row, in floats.
func (c *Config) dim() int { return c.RowBytes / 8 }

func (c *Config) payload() int64 { return int64(c.Rows) * int64(c.RowBytes) }
