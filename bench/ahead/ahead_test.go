package ahead

import "testing"

// TestTrace: a small training is recorded, and every policy is run over it.
func TestTrace(t *testing.T) {
	c := Config{Dir: t.TempDir(), Examples: 2000, Fields: 6, Vocab: 20000, Zipf: 1.05, Dim: 4, Batch: 256, Epochs: 1, Percent: 10,
		Rounds: 1, Threads: 1, Parts: Parts{Trace: true}, Seed: 1}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 3 {
		t.Fatalf("%d rows in the report, want one for each policy", len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.Iterations == 0 || row.Ratio <= 0 {
			t.Errorf("%s: %d reads, %g of the simulator's", row.Op, row.Iterations, row.Ratio)
		}
	}
}

func TestCheck(t *testing.T) {
	good := Config{Dir: "d", Examples: 1000, Batch: 1, Dim: 1, Epochs: 1, Rounds: 1, Threads: 1, Percent: 1, Parts: Parts{Train: true}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for i, spoil := range []func(*Config){
		func(c *Config) { c.Dir = "" }, func(c *Config) { c.Examples = 1 }, func(c *Config) { c.Batch = 0 }, func(c *Config) { c.Percent = 0 },
		func(c *Config) { c.Epochs = 0 }, func(c *Config) { c.Rounds = 0 }, func(c *Config) { c.Threads = 0 }, func(c *Config) { c.Parts = Parts{} },
	} {
		c := good
		if spoil(&c); c.Check() == nil {
			t.Errorf("case %d was accepted", i)
		}
	}
}
