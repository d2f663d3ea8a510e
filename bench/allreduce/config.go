package allreduce

import (
	"fmt"

	"psrt/bench/child"
	"psrt/bench/limits"
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
	Rival      bool   // OpenMPI too
	Collective string // Ring, also "", or NCCL, on a GPU at each rank
	Options    ring.Options
	Child      child.Command // the program again, calling Serve
}

// What adds.
const (
	Ring = "ring"
	NCCL = "nccl"
)

const (
	maxBytes  = 4 << 30
	maxRanks  = 64
	maxIters  = 1 << 20
	maxRounds = 1000
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	if c.Rival && c.Transport != "shm" && c.Transport != "tcp" {
		return fmt.Errorf("allreduce: OpenMPI takes turns over shm and tcp, not over %s", c.Transport)
	}
	if c.Collective != "" && c.Collective != Ring && c.Collective != NCCL {
		return fmt.Errorf("allreduce: collective %q, want %s or %s", c.Collective, Ring, NCCL)
	}
	for _, n := range c.Sizes {
		if n%4 != 0 {
			return fmt.Errorf("allreduce: a vector of %d bytes, want whole floats", n)
		}
	}
	return limits.Check("allreduce", append(limits.Each(c.Sizes, "bytes of a vector", 4, maxBytes),
		limits.Limit{Value: c.Ranks, What: "ranks", Least: 2, Most: maxRanks},
		limits.Limit{Value: c.Iterations, What: "iterations (0: as many as the size asks for)", Least: 0, Most: maxIters},
		limits.Limit{Value: c.Rounds, What: "rounds", Least: 1, Most: maxRounds})...)
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
