package allreduce

import (
	"fmt"

	"psrt/bench/child"
	"psrt/nccl/ring"
)

// Config of one run.
type Config struct {
	Transport  string // shm, tcp or verbs
	Ranks      int
	Sizes      []int // bytes of a vector
	Iterations int   // of a round; 0: by size
	Rounds     int
	Seed       uint64
	Rival      bool // OpenMPI too
	Options    ring.Options
	Child      child.Command // the program again, calling Serve
}

const (
	maxBytes  = 4 << 30
	maxRanks  = 64
	maxIters  = 1 << 20
	maxRounds = 1000
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Ranks < 2 || c.Ranks > maxRanks:
		return fmt.Errorf("allreduce: %d ranks, want 2 to %d", c.Ranks, maxRanks)
	case c.Iterations < 0 || c.Iterations > maxIters:
		return fmt.Errorf("allreduce: %d iterations, want at most %d, 0 for as many as the size asks for", c.Iterations, maxIters)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("allreduce: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	case len(c.Sizes) == 0:
		return fmt.Errorf("allreduce: no sizes; give at least one")
	case c.Rival && c.Transport != "shm" && c.Transport != "tcp":
		return fmt.Errorf("allreduce: OpenMPI takes turns over shm and tcp, not over %s", c.Transport)
	}
	for _, n := range c.Sizes {
		if n < 4 || n > maxBytes || n%4 != 0 {
			return fmt.Errorf("allreduce: a vector of %d bytes, want 4 to %d in whole floats", n, maxBytes)
		}
	}
	return nil
}

// iterations of a round.
func (c *Config) iterations(bytes int) int {
	if c.Iterations > 0 {
		return c.Iterations
	}
	const volume = 256 << 20
	return min(max(volume/bytes, 5), 2000)
}

// warmUp are iterations before those that count.
func warmUp(iterations int) int { return iterations/10 + 2 }
