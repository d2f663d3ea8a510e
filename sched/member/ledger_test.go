package member

import (
	"testing"

	"psrt/csrc/seedtest"
)

// TestEveryBatchOnce: workers die and come at random, zombies go on, and the server's
// table by (range, push) counts each batch once, also with 1 file and 8 workers.
func TestEveryBatchOnce(t *testing.T) {
	r := seedtest.Rand(t)
	for range 200 {
		sizes := make([]int64, 1+r.IntN(3))
		for i := range sizes {
			sizes[i] = r.Int64N(5000)
		}
		ranges := CutFiles(sizes, 8, 4, 64)
		at, file := int64(0), 0
		for _, x := range ranges { // without a gap or an overlap
			for x.File != file {
				if at != sizes[file] {
					t.Fatalf("file %d is cut at %d of %d", file, at, sizes[file])
				}
				at, file = 0, file+1
			}
			if x.From != at || x.To <= at {
				t.Fatalf("range %+v after %d", x, at)
			}
			at = x.To
		}
		l := NewLedger(len(ranges))
		batches := make([]uint64, len(ranges)) // of each range
		table := make([]Client, len(ranges))
		trained := make([]uint64, len(ranges))
		for i := range batches {
			batches[i] = 1 + r.Uint64N(6)
		}
		type claim struct {
			n       int
			gen, at uint64
			ok      bool
		}
		claims := make([]claim, 8)
		for steps := 0; l.Left() > 0; steps++ {
			if steps > 100_000 {
				t.Fatal("ranges are left")
			}
			w := r.IntN(8)
			c := &claims[w]
			if !c.ok {
				if n, done, gen, ok := l.Take(w); ok {
					*c = claim{n, gen, done, true}
				}
				continue
			}
			push := c.at + 1 // as a server takes it: once, and not of a client before
			if e := &table[c.n]; c.gen >= e.gen {
				e.gen = c.gen
				if push == e.last+1 {
					e.last++
					trained[c.n]++
				}
			}
			c.at++
			if r.IntN(4) > 0 { // else it dies, or was given up, before it has said so
				if err := l.Done(c.n, c.gen, c.at, c.at == batches[c.n]); err != nil || c.at == batches[c.n] {
					c.ok = false
				}
			} else if r.IntN(2) == 0 {
				l.Leave(w)
				c.ok = false
			} else {
				l.Leave(w) // and it goes on, as a zombie
			}
			if c.ok && c.at >= batches[c.n] {
				c.ok = false
				l.Leave(w)
			}
		}
		for i := range trained {
			if trained[i] != batches[i] {
				t.Fatalf("range %d: %d of %d batches were counted", i, trained[i], batches[i])
			}
		}
	}
}

// Client is a line of a server's table.
type Client struct{ gen, last uint64 }
