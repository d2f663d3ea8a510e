package usage

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A Histogram's buckets double: the first ends at firstBucket, the last but one
// at about 17 s, the last has no end.
const (
	Buckets     = 27
	firstBucket = time.Microsecond / 2 // 500 ns
)

// Histogram counts durations. The zero value stands. Any goroutine adds and
// reads; a reading while others add may lack the newest.
type Histogram struct {
	counts [Buckets]atomic.Uint64
	nanos  atomic.Uint64
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	at := bits.Len64(uint64(max(d-1, 0)) / uint64(firstBucket)) // 0: at most the first bucket's end
	h.counts[min(at, Buckets-1)].Add(1)
	h.nanos.Add(uint64(d))
}

// Counts is a reading of a Histogram.
type Counts struct {
	Buckets [Buckets]uint64 // each for itself
	Nanos   uint64          // the sum of all durations
}

// Read reads.
func (h *Histogram) Read() (c Counts) {
	for i := range h.counts {
		c.Buckets[i] = h.counts[i].Load()
	}
	c.Nanos = h.nanos.Load()
	return c
}

// Add adds another Histogram's reading.
func (c *Counts) Add(o Counts) {
	for i := range c.Buckets {
		c.Buckets[i] += o.Buckets[i]
	}
	c.Nanos += o.Nanos
}

// N is how many durations were counted.
func (c *Counts) N() (n uint64) {
	for _, b := range c.Buckets {
		n += b
	}
	return n
}

// End is the end of a bucket, which belongs to it; the last has none.
func End(bucket int) (end time.Duration, ok bool) {
	return firstBucket << bucket, bucket < Buckets-1
}

// Quantile is an upper bound of the q-quantile: the end of the bucket that it
// is in, 0 without counts.
func (c *Counts) Quantile(q float64) time.Duration {
	n := c.N()
	if n == 0 {
		return 0
	}
	rank, sum := uint64(q*float64(n)), uint64(0)
	for i, b := range c.Buckets {
		if sum += b; sum > rank || sum == n {
			end, _ := End(i)
			return end
		}
	}
	return 0
}
