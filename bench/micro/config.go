package micro

import (
	"context"
	"fmt"
	"time"

	"psrt/bench/child"
	"psrt/rdma"
)

// The suites.
const (
	SuiteLatency   = "lat"
	SuiteBandwidth = "bw"
)

const (
	minBytes  = 8 // a stamp
	maxBytes  = 1 << 30
	depth     = 64   // requests in flight each way
	lineBytes = 4096 // front of a region: the line that the limit spins on
	// ringBytes is how much memory the requests in flight rotate through.
	ringBytes = 16 << 20

	rivalTime     = 10 * time.Second // a round of another program's, with its start
	maxIterations = 1 << 24
	maxRounds     = 10_000
	stall         = 10 * time.Second // without progress a phase fails
)

// Opener opens a domain of the named transport.
type Opener func(transport string) (rdma.Domain, error)

// Config of one run.
type Config struct {
	Suite     string // lat or bw
	Transport string // given to Open
	// PeerTransport is given to Open in the peer; empty: as here.
	PeerTransport string
	Sizes         []int // bytes
	Iterations    int   // per size, over all rounds
	Rounds        int   // 0: 5
	// Volume, if not 0, is how many bytes a size moves at most, over all rounds;
	// each round moves one message at least.
	Volume int
	// Duration, if not 0, repeats rounds of Iterations/Rounds for so long per
	// row instead.
	Duration  time.Duration
	Seed      uint64 // of the bytes moved
	BulkBytes int    // of the bulk memcpy; 0: 64 MiB
	Open      Opener
	// Rival, if not nil, measures the same operation by another program, which
	// then takes its turn in every round: the result in the unit of the row
	// (microseconds or GB/s), or ok false where it has no such operation.
	RivalName string
	Rival     func(ctx context.Context, op string, bytes, iterations int) (value float64, ok bool, err error)
	Peer      child.Command
}

// Check fills in defaults and refuses what cannot be run.
func (c *Config) Check() error {
	if c.Rounds == 0 {
		c.Rounds = 5
	}
	if c.PeerTransport == "" {
		c.PeerTransport = c.Transport
	}
	if c.BulkBytes == 0 {
		c.BulkBytes = 64 << 20
	}
	switch {
	case c.Suite != SuiteLatency && c.Suite != SuiteBandwidth:
		return fmt.Errorf("micro: suite %q, want %s or %s", c.Suite, SuiteLatency, SuiteBandwidth)
	case len(c.Sizes) == 0:
		return fmt.Errorf("micro: no sizes; give at least one, in bytes")
	case c.Iterations < 1 || c.Iterations > maxIterations:
		return fmt.Errorf("micro: %d iterations, want 1 to %d", c.Iterations, maxIterations)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("micro: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	case c.Volume < 0:
		return fmt.Errorf("micro: volume of %d bytes, want 1 or more, or 0 for any", c.Volume)
	case c.Duration < 0 || c.Duration > time.Hour:
		return fmt.Errorf("micro: duration %s, want at most 1h", c.Duration)
	}
	c.Rounds = min(c.Rounds, c.Iterations)
	for _, n := range c.Sizes {
		if n < minBytes || n > maxBytes {
			return fmt.Errorf("micro: size %d bytes, want %d to %d", n, minBytes, maxBytes)
		}
	}
	return nil
}

// iterations is how many messages of n bytes all rounds together move.
func (c *Config) iterations(n int) int {
	if c.Volume == 0 {
		return c.Iterations
	}
	return min(c.Iterations, max(c.Volume/n, c.Rounds))
}

// budget is how long the whole run may take.
func (c *Config) budget() time.Duration {
	d := 5*time.Minute + time.Duration(4*len(c.Sizes))*c.Duration
	if c.Rival != nil {
		d += time.Duration(2*len(c.Sizes)*c.Rounds) * rivalTime
	}
	return d
}

// slots is how many places for n bytes the requests of bw rotate through; a
// multiple of group.
func slots(n int) int {
	s := min(max(ringBytes/n, 1), depth)
	return s / group(s) * group(s)
}

// group is how many requests are posted together, the last one signaled.
func group(slots int) int { return max(slots/4, 1) }

// regionBytes is what a region needs for all sizes of both suites.
func regionBytes(sizes []int) int {
	most := 0
	for _, n := range sizes {
		most = max(most, max(slots(n), 2)*n)
	}
	return lineBytes + most
}
