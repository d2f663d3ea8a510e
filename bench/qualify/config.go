package qualify

import (
	"fmt"
	"slices"
	"time"

	"psrt/bench/micro"
	"psrt/rdma/dial"
	"psrt/rdma/secure"
)

const (
	// MaxRanks of a run.
	MaxRanks       = 256
	latencyBytes   = 8
	maxSize        = 8 << 20 // of one message on soft-RoCE; a region is 16 MiB then
	maxSizes       = 8
	maxIterations  = 1 << 20
	maxDuration    = time.Minute
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = 10 * time.Minute
	maxJoinTimeout = time.Hour
	// confirmed pairs are measured again, alone, at most so many, worst first.
	confirmed = 32
	// totalFactor: all pairs at once are measured so many times as long as one.
	totalFactor = 5
)

// Plan says what to measure and how to judge it. It is the director's; ranks
// are told.
type Plan struct {
	Sizes      []int         // bytes of writes
	Iterations int           // ping-pongs
	Duration   time.Duration // of each size's writes, about
	// Timeout bounds each step: a connection, a phase, a sign of life.
	Timeout     time.Duration
	JoinTimeout time.Duration // until all ranks are there
	Serial      bool          // one pair at a time
	// LinksPerHost is how many pairs with other hosts a host plays at a time; 0:
	// as many as it has RDMA devices, or one.
	LinksPerHost int
	NoTotal      bool // leave all pairs at once out
	MADs         float64
	Latency      float64 // share of the median that a latency may be more
	Bandwidth    float64 // share of the median that a bandwidth may be less
	Seed         uint64
}

// leastLatency is the difference, in microseconds, that never makes an outlier.
const leastLatency = 1

// Check refuses what cannot be run.
func (p *Plan) Check() error {
	bad := func(format string, args ...any) error { return fmt.Errorf("qualify: "+format, args...) }
	switch {
	case len(p.Sizes) == 0 || len(p.Sizes) > maxSizes:
		return bad("%d sizes, want 1 to %d", len(p.Sizes), maxSizes)
	case p.Iterations < 10 || p.Iterations > maxIterations:
		return bad("%d iterations, want 10 to %d", p.Iterations, maxIterations)
	case p.Duration <= 0 || p.Duration > maxDuration:
		return bad("writes for %v, want more than 0 and at most %v", p.Duration, maxDuration)
	case p.Timeout < minTimeout || p.Timeout > maxTimeout:
		return bad("a timeout of %v, want %v to %v", p.Timeout, minTimeout, maxTimeout)
	case p.JoinTimeout <= 0 || p.JoinTimeout > maxJoinTimeout:
		return bad("%v until all ranks are there, want more than 0 and at most %v", p.JoinTimeout, maxJoinTimeout)
	case p.LinksPerHost < 0 || p.LinksPerHost > MaxRanks:
		return bad("%d links a host, want 1 to %d, or 0 for as many as it has devices", p.LinksPerHost, MaxRanks)
	case !(p.MADs > 0 && p.MADs < 1e6):
		return bad("%g deviations, want more than 0", p.MADs)
	case !(p.Latency > 0 && p.Latency < extreme-1):
		return bad("a latency may be %g of the median more, want more than 0 and less than %d", p.Latency, extreme-1)
	case !(p.Bandwidth > 0 && p.Bandwidth < 1):
		return bad("a bandwidth may be %g of the median less, want more than 0 and less than 1", p.Bandwidth)
	}
	for i, n := range p.Sizes {
		if n < latencyBytes || n > maxSize {
			return bad("size %d bytes, want %d to %d", n, latencyBytes, maxSize)
		}
		if slices.Contains(p.Sizes[:i], n) {
			return bad("size %d twice", n)
		}
	}
	return nil
}

func (p *Plan) rules() (latency, bandwidth Rule) {
	return Rule{MADs: p.MADs, Tolerance: p.Latency, Least: leastLatency}, Rule{Higher: true, MADs: p.MADs, Tolerance: p.Bandwidth}
}

// regionBytes is what one rank's memory needs: for a duel, or a page for each
// rank of a crowd.
func (p *Plan) regionBytes() int {
	return max(micro.RegionBytes(append([]int{latencyBytes}, p.Sizes...)), MaxRanks*4096)
}

// duelLimit is how long one direction of a pair may take: to connect, in three
// steps at most, and to measure.
func (p *Plan) duelLimit() time.Duration {
	return 4*p.Timeout + time.Duration(4*len(p.Sizes))*p.Duration
}

// Job is how a process takes part.
type Job struct {
	Rank, World int
	// Coordinator is where the director listens: "host:port" or "unix:PATH".
	Coordinator string
	Token       []byte
}

// Check refuses ranks that cannot be.
func (j *Job) Check() error {
	switch {
	case j.World < 2 || j.World > MaxRanks:
		return fmt.Errorf("qualify: %d ranks, want 2 to %d: a pair is the least there is to measure", j.World, MaxRanks)
	case j.Rank < 0 || j.Rank >= j.World:
		return fmt.Errorf("qualify: rank %d of %d, want 0 to %d", j.Rank, j.World, j.World-1)
	case j.Coordinator != "" && dial.CheckCoordinator(j.Coordinator) != nil:
		return fmt.Errorf("qualify: coordinator: %w", dial.CheckCoordinator(j.Coordinator))
	case len(j.Token) < secure.MinToken:
		return fmt.Errorf("qualify: a token of %d bytes, want at least %d", len(j.Token), secure.MinToken)
	}
	return nil
}
