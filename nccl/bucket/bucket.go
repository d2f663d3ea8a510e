package bucket

import (
	"psrt/nccl/coll"
)

const (
	// MostBytes is how much of a vector is measured: of a longer one the time of a call
	// itself is nothing any more.
	MostBytes = 16 << 20
	// leastBytes is the shortest bucket: below, a call itself takes longer than its bytes.
	leastBytes = 256 << 10
	shorter    = 4 // from one size to the next
	// gainLeast is by how much shorter buckets must be quicker: more calls are more to
	// wait for where ranks do not come at once.
	gainLeast = .03
	// ahead is how many buckets are under way, that of the caller's turn included.
	ahead = 2
	line  = 64 // bytes, to which cuts are aligned
)

// Tried is what adding a vector in buckets of so many bytes took.
type Tried struct {
	Bytes   int     `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Sizes are the lengths of buckets to try for a vector of so many bytes, the longest first:
// all of it, or of what is measured of it.
func Sizes(bytes int) []int {
	sizes := []int{min(bytes, MostBytes)}
	for size := MostBytes / shorter; size >= leastBytes; size /= shorter {
		if count(sizes[0], size) > 1 {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// Choose is the length with which a vector of so many bytes is added quickest, of those
// that were tried: 0 is to leave it whole.
func Choose(bytes int, tried []Tried) int {
	if len(tried) == 0 {
		return 0
	}
	best := tried[0]
	for _, t := range tried[1:] {
		if t.Seconds < best.Seconds*(1-gainLeast) {
			best = t
		}
	}
	if best.Bytes >= bytes || best.Bytes == tried[0].Bytes {
		return 0
	}
	return best.Bytes
}

// count is how many buckets of about size bytes make bytes; size 0: one.
func count(bytes, size int) int {
	if size <= 0 || bytes <= size {
		return 1
	}
	return (bytes + size - 1) / size
}

// cut is where bucket i of n begins; they are alike within a line.
func cut(bytes, i, n int) int {
	if i == n {
		return bytes
	}
	return int(int64(bytes)*int64(i)/int64(n)) &^ (line - 1)
}

// Reduce makes c, an all-reduce, in buckets of about size bytes. landed is told, on this
// goroutine, what is added, from the front on; it may be nil. After an error nothing of c
// is under way.
func Reduce(g coll.Group, c coll.Call, size int, landed func(end int)) error {
	if landed == nil {
		landed = func(int) {}
	}
	bytes := len(c.Send)
	n := count(bytes, size)
	if n == 1 {
		err := g.Do(c)
		if err == nil {
			landed(bytes)
		}
		return err
	}
	var under [ahead]*coll.Pending
	started := 0
	var failed error
	for i := range n {
		for ; started < min(n, i+ahead) && failed == nil; started++ {
			from, to := cut(bytes, started, n), cut(bytes, started+1, n)
			part := c
			part.Send, part.Recv = c.Send[from:to], c.Recv[from:to]
			under[started%ahead] = g.Start(part)
		}
		if i == started {
			break // one before it failed
		}
		if err := under[i%ahead].Wait(); err != nil && failed == nil {
			failed = err
		}
		if failed == nil {
			landed(cut(bytes, i+1, n))
		}
	}
	return failed
}
