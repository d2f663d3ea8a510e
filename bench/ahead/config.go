package ahead

import "fmt"

// Config of one run.
type Config struct {
	Dir      string // on the disk to measure; made by the caller
	Examples int64  // of the large job's data, each epoch
	Fields   int
	Vocab    uint64
	Zipf     float64
	Dim      int
	Batch    int
	Epochs   int
	Percent  float64 // of the rows that fit in memory
	Rounds   int     // trainings on disk, in turns with the disk alone
	Threads  int     // of the worker
	Parts    Parts
	// Record keeps the trace in a file, "" does not.
	Record string
	Seed   uint64
}

// Parts says which figures are wanted.
type Parts struct{ Trace, Train bool }

const (
	maxExamples = 1 << 40
	maxBatch    = 1 << 20
	maxEpochs   = 1000
	maxRounds   = 1000
	maxDim      = 1 << 12
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("ahead: no directory on the disk to measure")
	case c.Examples < 1000 || c.Examples > maxExamples:
		return fmt.Errorf("ahead: %d examples, want 1000 to %d", c.Examples, int64(maxExamples))
	case c.Batch < 1 || c.Batch > maxBatch:
		return fmt.Errorf("ahead: batches of %d examples, want 1 to %d", c.Batch, maxBatch)
	case c.Dim < 1 || c.Dim > maxDim:
		return fmt.Errorf("ahead: dimension %d, want 1 to %d", c.Dim, maxDim)
	case c.Epochs < 1 || c.Epochs > maxEpochs:
		return fmt.Errorf("ahead: %d epochs, want 1 to %d", c.Epochs, maxEpochs)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("ahead: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	case c.Threads < 1:
		return fmt.Errorf("ahead: %d threads, want at least 1", c.Threads)
	case !(c.Percent > 0 && c.Percent <= 100):
		return fmt.Errorf("ahead: %g %% of the rows in memory, want more than 0 and at most 100", c.Percent)
	case !c.Parts.Trace && !c.Parts.Train:
		return fmt.Errorf("ahead: nothing is wanted of it")
	}
	return nil
}
