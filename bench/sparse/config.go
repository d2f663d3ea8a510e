package sparse

import (
	"fmt"

	"psrt/bench/child"
	"psrt/tiers/table"
)

// Config of one run.
type Config struct {
	Op        string // "pull" or "push": which rows the report holds
	Transport string // as dial's
	Keys      int    // rows of a batch
	Dims      []int  // floats of a row; each is measured in turn
	Rows      int    // of the table
	Batches   int    // per round
	Rounds    int
	Seed      uint64
	Child     child.Command // the program again, calling Serve
}

const (
	maxKeys    = 1 << 16
	maxRows    = 1 << 26
	maxBatches = 1 << 12
	maxRounds  = 1000
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Op != "pull" && c.Op != "push":
		return fmt.Errorf("sparse: operation %q, want pull or push", c.Op)
	case c.Keys < 1 || c.Keys > maxKeys:
		return fmt.Errorf("sparse: %d keys a batch, want 1 to %d", c.Keys, maxKeys)
	case c.Rows < c.Keys || c.Rows > maxRows:
		return fmt.Errorf("sparse: a table of %d rows, want at least the %d keys of a batch and at most %d", c.Rows, c.Keys, maxRows)
	case c.Batches < 1 || c.Batches > maxBatches:
		return fmt.Errorf("sparse: %d batches a round, want 1 to %d", c.Batches, maxBatches)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("sparse: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	case len(c.Dims) == 0:
		return fmt.Errorf("sparse: no row length; give at least one, in floats")
	}
	for _, d := range c.Dims {
		if d < 1 || d > table.MaxDim {
			return fmt.Errorf("sparse: rows of %d floats, want 1 to %d", d, table.MaxDim)
		}
	}
	return nil
}

// rate keeps sums of small whole gradients exact in float32, so that the three
// tables can be compared bit for bit.
const rate = 0.5

// spec of the psrt table for the i-th length of rows. Rows begin at zero, as
// the rival's do. What is pushed by keys has a table of its own.
func spec(c *Config, i int, byKeys bool) table.Spec {
	dim, id, what := c.Dims[i], uint32(2*i), "ticket"
	if byKeys {
		id, what = id+1, "keys"
	}
	return table.Spec{Name: fmt.Sprintf("%d-rows-of-%d-by-%s", i, dim, what), ID: id, Dim: dim, Init: table.Init{Kind: table.InitZero},
		Optimizer: table.Optimizer{Kind: table.SGD, LR: rate}}
}
