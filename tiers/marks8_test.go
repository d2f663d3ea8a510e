package tiers

import (
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// TestMarksOfACut holds the marks that are set eight at a time to the rule for one.
func TestMarksOfACut(t *testing.T) {
	r := seedtest.Rand(t)
	for range 300 {
		c := newChunk(r.IntN(70))
		for i := range c.flags {
			if c.flags[i] = uint8(r.Uint32()); r.IntN(4) == 0 {
				c.flags[i] = 0
			}
			c.flags[i] &^= markCut | markCarried
		}
		delta, committed := r.IntN(2) == 0, r.IntN(2) == 0
		want, rows := slices.Clone(c.flags), 0
		for i, f := range want {
			if f&flagLive == 0 {
				continue
			}
			if !delta || f&markChanged != 0 {
				f |= markCut
				rows++
			}
			if f&markChanged != 0 {
				f = f&^markChanged | markCarried
			}
			want[i] = f
		}
		if n := c.beginCut(delta); n != rows || !slices.Equal(c.flags, want) {
			t.Fatalf("delta %v: %d rows, want %d; %08b, want %08b", delta, n, rows, c.flags, want)
		}
		for i, f := range want {
			if f&markCarried != 0 && !committed {
				f |= markChanged
			}
			want[i] = f &^ (markCarried | markCut)
		}
		if c.endCut(committed); !slices.Equal(c.flags, want) {
			t.Fatalf("committed %v: %08b, want %08b", committed, c.flags, want)
		}
	}
}

// TestRowQueue holds it to a slice.
func TestRowQueue(t *testing.T) {
	r := seedtest.Rand(t)
	var q rowQueue
	var want []uint64
	next := uint64(0)
	for range 200 {
		for range r.IntN(3 * queueRows) {
			next++
			q.push(next, []float32{float32(next), -float32(next)})
			want = append(want, next)
		}
		for range r.IntN(3 * queueRows) {
			if len(want) == 0 {
				break
			}
			if key, row := q.pop(); key != want[0] || row[0] != float32(key) || row[1] != -float32(key) {
				t.Fatalf("key %d with row %v, want %d", key, row, want[0])
			}
			want = want[1:]
		}
		if q.len() != len(want) || int(q.bytes(2)) < 16*len(want) {
			t.Fatalf("%d rows in %d bytes, want %d", q.len(), q.bytes(2), len(want))
		}
	}
}

func BenchmarkBeginCut(b *testing.B) {
	c := newChunk(1 << trackShift)
	for i := range c.flags {
		c.flags[i] = flagLive | markChanged*uint8(i%2)
	}
	b.SetBytes(1 << trackShift)
	for b.Loop() {
		c.beginCut(false)
	}
}
