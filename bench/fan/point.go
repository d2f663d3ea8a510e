package fan

import (
	"math"
	"time"

	"psrt/bench/report"
)

// Point is what one mode did with one number of workers.
type Point struct {
	Mode    string
	Workers int
	Round   int
	Pushes  int     // summed at the server inside the window
	Bytes   int64   // of these
	Each    []int64 // likewise, by worker
	Seconds float64
	// Landed is the payload that has reached the server inside the window.
	// Workers that are served fairly end their pushes at the same time: whole
	// pushes are too coarse a measure of the rate.
	Landed  int64
	Goodput float64 // bytes/s of gradients that landed
	Link    float64 // what the link itself carries, bytes/s
	Alone   float64 // goodput with the fewest workers, same mode
	Jain    float64 // over the workers' bytes
	Least   float64 // the worst served worker over the mean

	Unloaded, Loaded report.Latency // of the probe
	Probes           int            // pulls under load
	// BoundMicros is the unloaded p99 and k+1 chunks at the link's rate; 0 in a
	// mode that does not grant.
	BoundMicros float64
	ChunkBytes  int64
	WindowBytes int64
	RTTMicros   float64 // as the server's policy estimates it
	RateGuess   float64 // bytes/s, likewise

	Seen       Seen
	Counts     Counts
	CPUSeconds float64 // of server and workers, for all bytes of the point
	CPUBytes   int64
	Load       float64
	Checksum   string
}

// Counts are what networks do besides carrying. Fields that nobody counts are
// -1.
type Counts struct {
	RNR           int64 // receiver-not-ready NAKs that the server sent
	Retransmitted int64 // TCP segments, or RDMA requests sent again
	Dropped       int64 // packets, by the switch
}

func (c Counts) minus(o Counts) Counts {
	return c.with(o, func(a, b int64) int64 { return a - b })
}

func (c Counts) plus(o Counts) Counts {
	return c.with(o, func(a, b int64) int64 { return a + b })
}

func (c Counts) with(o Counts, f func(a, b int64) int64) Counts {
	d := func(a, b int64) int64 {
		if a < 0 || b < 0 {
			return -1
		}
		return f(a, b)
	}
	return Counts{d(c.RNR, o.RNR), d(c.Retransmitted, o.Retransmitted), d(c.Dropped, o.Dropped)}
}

// jain is the index of Jain, Chiu and Hawe: 1 when all have the same, 1/n when
// one has all.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// least is the smallest share over the mean.
func least(shares []float64) float64 {
	var sum float64
	low := math.Inf(1)
	for _, x := range shares {
		sum += x
		low = min(low, x)
	}
	if sum == 0 {
		return 0
	}
	return low / (sum / float64(len(shares)))
}

// bound is the promise of the grant policy for a small pull, in microseconds:
// its p99 without pushes, and k+1 chunks of a link that carries rate bytes/s.
func bound(unloadedMicros float64, chunk, window int64, rate float64) float64 {
	if chunk <= 0 || rate <= 0 {
		return 0
	}
	k := math.Ceil(float64(window) / float64(chunk))
	return unloadedMicros + (k+1)*float64(chunk)/rate*1e6
}

// window is how long pushes of n workers are counted.
func (c *Config) window(n int, rate float64) time.Duration {
	d := c.Duration
	if rate > 0 {
		d = max(d, time.Duration(float64(windowPushes*n*c.Bytes)/rate*float64(time.Second)))
	}
	return min(d, max(maxWindow, c.Duration))
}
