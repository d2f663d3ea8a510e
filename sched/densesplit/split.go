package densesplit

import (
	"fmt"
	"math"
)

// Measured is what the whole vector takes, in seconds.
type Measured struct {
	Servers float64 `json:"servers_s"`   // pushed to the servers by all workers, and pulled
	Reduce  float64 `json:"allreduce_s"` // added among the workers, and pushed by one
}

// Split is the choice.
type Split struct {
	// Reduced says of each lane whether its blocks are added among the workers.
	Reduced []bool
	// Share is the part of the vector that is.
	Share float64
	// Seconds a step is expected to take for the exchange.
	Seconds float64
}

// maxLanes bounds the lanes that are told apart.
const maxLanes = 1 << 16

// Choose takes the elements of each lane. Lanes go to the all-reduce from the first on:
// what is added among workers is adjacent then.
func Choose(m Measured, lanes []int) (Split, error) {
	if !(m.Servers > 0 && m.Reduce > 0) || math.IsInf(m.Servers+m.Reduce, 0) {
		return Split{}, fmt.Errorf("densesplit: %v s by servers and %v s by all-reduce were measured, want times above 0", m.Servers, m.Reduce)
	}
	if len(lanes) < 1 || len(lanes) > maxLanes {
		return Split{}, fmt.Errorf("densesplit: %d lanes have dense values, want 1 to %d", len(lanes), maxLanes)
	}
	total := 0
	for i, n := range lanes {
		if n < 1 || n > math.MaxInt-total {
			return Split{}, fmt.Errorf("densesplit: lane %d has %d elements, want at least 1", i, n)
		}
		total += n
	}
	at := func(reduced int) float64 {
		share := float64(reduced) / float64(total)
		return max(share*m.Reduce, (1-share)*m.Servers)
	}
	best, sum, first := Split{Seconds: at(0)}, 0, 0
	for i, n := range lanes {
		sum += n
		if s := at(sum); s < best.Seconds {
			best, first = Split{Share: float64(sum) / float64(total), Seconds: s}, i+1
		}
	}
	best.Reduced = make([]bool, len(lanes))
	for i := range first {
		best.Reduced[i] = true
	}
	return best, nil
}
