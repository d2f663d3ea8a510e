package server

import (
	"psrt/tiers"
	"psrt/tiers/dram"
	"psrt/tiers/table"
)

// RowsConfig is one table's part in one lane, as it is to be opened.
type RowsConfig struct {
	Spec table.Spec
	Seed uint64
	Node int // NUMA node of the memory, -1 any
	// MaxBytes bounds the memory, 0 = none: a part of Config.MaxBytes.
	MaxBytes int64
	// Budget is what all tables of the lane share that lie in memory, however many
	// there will be; nil without a bound.
	Budget       *dram.Budget
	Server, Lane int
	// Tracked is Config's.
	Tracked bool
	// Wake tells the lane, from any goroutine, that Poll may find something.
	Wake func()
}

// InMemory opens a table that lies in memory, all of it.
func InMemory(c RowsConfig) (tiers.Rows, error) {
	return tiers.NewMemory(c.Spec, c.Seed, tiers.MemoryConfig{Node: c.Node, Budget: c.Budget, Tracked: c.Tracked})
}
