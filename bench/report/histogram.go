package report

import (
	"math/bits"
	"time"
)

// Buckets are linear inside a power of two: subBuckets of them, so a quantile
// is at most 1/subBuckets too large.
const (
	subBits    = 7
	subBuckets = 1 << subBits
)

// Histogram counts durations of up to 2^63 ns in fixed room. Its zero value is
// empty. Minimum, maximum and mean are exact.
type Histogram struct {
	counts   [(64 - subBits) * subBuckets]uint64
	n        uint64
	sum      uint64
	min, max uint64
}

// Record adds one sample; a negative one (a clock set back) counts as 0.
func (h *Histogram) Record(d time.Duration) {
	v := uint64(max(d, 0))
	if h.n == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.n++
	h.sum += v
	h.counts[bucket(v)]++
}

// Merge adds o's samples.
func (h *Histogram) Merge(o *Histogram) {
	if o.n == 0 {
		return
	}
	if h.n == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.n += o.n
	h.sum += o.sum
	for i, c := range o.counts {
		h.counts[i] += c
	}
}

// Count is the number of samples.
func (h *Histogram) Count() uint64 { return h.n }

// Quantile is the smallest recorded value, rounded up to its bucket's end,
// that at least the share q of the samples does not exceed; 0 when empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	want := min(max(uint64(q*float64(h.n)+0.999999), 1), h.n)
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen >= want {
			return time.Duration(min(max(upper(i), h.min), h.max))
		}
	}
	return time.Duration(h.max)
}

// Latency is the summary in the columns of a Row.
func (h *Histogram) Latency() *Latency {
	if h.n == 0 {
		return &Latency{}
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	return &Latency{
		Min:     us(time.Duration(h.min)),
		Typical: us(h.Quantile(0.5)),
		Avg:     float64(h.sum) / float64(h.n) / 1e3,
		P99:     us(h.Quantile(0.99)),
		P999:    us(h.Quantile(0.999)),
	}
}

// bucket: values below 2*subBuckets have one each; above, the top subBits+1
// bits choose.
func bucket(v uint64) int {
	if v < 2*subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift*subBuckets + int(v>>shift)
}

// upper is the largest value in bucket i.
func upper(i int) uint64 {
	if i < 2*subBuckets {
		return uint64(i)
	}
	shift := i/subBuckets - 1
	return uint64(i-shift*subBuckets+1)<<shift - 1
}
