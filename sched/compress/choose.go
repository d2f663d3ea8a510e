package compress

import (
	"cmp"
	"math"
	"slices"
)

// chooser finds the largest of many without sorting them all: the peaks fall into
// buckets by their upper bits, and only the bucket in which the limit falls is sorted.
type chooser struct {
	count [1 << 16]int32
	edge  []int32
}

// choose calls take for k of n, those with the greatest peaks (bits of magnitudes);
// of two as great the one that before says. Their order is that of their numbers, but
// for those of one bucket.
func (c *chooser) choose(n, k int, peak func(int) uint32, before func(a, b int32) int, take func(int)) {
	if k <= 0 {
		return
	}
	clear(c.count[:])
	for i := range n {
		c.count[peak(i)>>15]++
	}
	limit, above := len(c.count)-1, 0
	for ; limit > 0 && above+int(c.count[limit]) < k; limit-- {
		above += int(c.count[limit])
	}
	c.edge = c.edge[:0]
	for i := range n {
		switch b := int(peak(i) >> 15); {
		case b > limit:
			take(i)
		case b == limit:
			c.edge = append(c.edge, int32(i))
		}
	}
	if rest := k - above; rest < len(c.edge) {
		slices.SortFunc(c.edge, func(a, b int32) int {
			return cmp.Or(cmp.Compare(peak(int(b)), peak(int(a))), before(a, b))
		})
		c.edge = c.edge[:rest]
	}
	for _, i := range c.edge {
		take(int(i))
	}
}

func magnitude(f float32) uint32 { return math.Float32bits(f) &^ (1 << 31) }

// portion is how many of n a share is: at least one.
func portion(n int, share float64) int { return min(n, max(1, int(math.Ceil(share*float64(n))))) }
