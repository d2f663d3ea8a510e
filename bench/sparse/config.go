package sparse

import (
	"fmt"

	"psrt/bench/child"
	"psrt/bench/limits"
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
	if c.Op != "pull" && c.Op != "push" {
		return fmt.Errorf("sparse: operation %q, want pull or push", c.Op)
	}
	return limits.Check("sparse", append(limits.Each(c.Dims, "floats of a row", 1, table.MaxDim),
		limits.Limit{Value: c.Keys, What: "keys a batch", Least: 1, Most: maxKeys},
		limits.Limit{Value: c.Rows, What: "rows of the table (no fewer than a batch has keys)", Least: c.Keys, Most: maxRows},
		limits.Limit{Value: c.Batches, What: "batches a round", Least: 1, Most: maxBatches},
		limits.Limit{Value: c.Rounds, What: "rounds", Least: 1, Most: maxRounds})...)
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
