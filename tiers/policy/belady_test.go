package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// uses is the window by its definition: all batches announced and not passed.
type uses struct {
	batches map[uint64][]uint64
	passed  uint64
}

const never = ^uint64(0)

// next is the first batch that uses key.
func (u *uses) next(key uint64) uint64 {
	best := never
	for b, keys := range u.batches {
		for _, k := range keys {
			if k == key {
				best = min(best, b)
			}
		}
	}
	return best
}

// TestBeladyAgainstItsDefinition: whoever leaves is used at the batch furthest
// in the future of all that may, or not at all.
func TestBeladyAgainstItsDefinition(t *testing.T) {
	for range 10 {
		r := seedtest.Rand(t)
		at := map[uint64]uint32{}
		p := NewBelady(60+r.IntN(60), func(keys []uint64, frames []uint32) {
			for i, k := range keys {
				frames[i] = NoFrame
				if f, ok := at[k]; ok {
					frames[i] = f
				}
			}
		})
		beladyWalk(t, r, p, at)
	}
}

func beladyWalk(t *testing.T, r *rand.Rand, p *Belady, at map[uint64]uint32) {
	const frames, vocabulary = 20, 60
	p.Grow(frames)
	u := &uses{batches: map[uint64][]uint64{}}
	keys := make([]uint64, frames)
	var free []uint32
	for f := range uint32(frames) {
		free = append(free, f)
	}
	batch := uint64(r.IntN(3))
	for range 3000 {
		switch r.IntN(8) {
		case 0:
			want := make([]uint64, r.IntN(20))
			for i := range want {
				want[i] = r.Uint64N(vocabulary)
			}
			at := batch
			if r.IntN(3) == 0 { // another worker's part of one that is known
				at = max(u.passed, batch-min(batch, 1+r.Uint64N(3)))
			}
			n := p.Announce(at, want)
			if begin, end := p.Window(); n > 0 && end <= at || n > len(want) || begin > end {
				t.Fatalf("announced %d keys of batch %d, the window is %d to %d", n, at, begin, end)
			}
			u.batches[at] = append(u.batches[at], want[:n]...)
			checkKeys(t, p, at, u.batches[at])
			batch = max(batch, at+1+r.Uint64N(2))
		case 1:
			u.passed = max(u.passed, batch-min(batch, uint64(r.IntN(6))))
			p.Passed(u.passed)
			for b := range u.batches {
				if b < u.passed {
					delete(u.batches, b)
				}
			}
		case 2:
			for key, f := range at {
				p.Remove(f, key)
				delete(at, key)
				free = append(free, f)
				break
			}
		default:
			key := r.Uint64N(vocabulary)
			if f, ok := at[key]; ok {
				p.Touch(f, key)
				continue
			}
			if len(free) == 0 {
				pinned := r.Uint32N(frames)
				may := func(f uint32) bool { return f != pinned }
				anyone := r.IntN(2) == 0
				before := batch - min(batch, uint64(r.IntN(8)))
				furthest := uint64(0)
				for k, f := range at {
					if may(f) {
						furthest = max(furthest, u.next(k))
					}
				}
				var f uint32
				var ok bool
				if anyone {
					f, ok = p.Victim(may)
				} else {
					f, ok = p.VictimAfter(before, may)
				}
				if want := anyone || furthest > before; ok != want {
					t.Fatalf("a victim (anyone: %v) used after batch %d: %v, want %v: %d is the furthest", anyone, before, ok, want, furthest)
				}
				if !ok {
					continue
				}
				if next := u.next(keys[f]); next != furthest || f == pinned {
					t.Fatalf("the victim is used at %d, another not before %d", next, furthest)
				}
				delete(at, keys[f])
				free = append(free, f)
			}
			f := free[len(free)-1]
			free = free[:len(free)-1]
			keys[f], at[key] = key, f
			if next := u.next(key); r.IntN(2) == 0 && next != never {
				p.AddFor(next, f, key)
			} else if r.IntN(2) == 0 && u.passed > 0 {
				p.AddFor(u.passed-1, f, key)
			} else {
				p.Add(f, key)
			}
		}
	}
}

// checkKeys: what was announced for a batch is told in order, each key once.
func checkKeys(t *testing.T, p *Belady, batch uint64, announced []uint64) {
	var want []uint64
	for _, key := range announced {
		if !slices.Contains(want, key) {
			want = append(want, key)
		}
	}
	var got, some []uint64
	for at := NoUse; ; {
		some = make([]uint64, 7)
		n, last := p.Keys(batch, at, some)
		if n == 0 {
			break
		}
		got, at = append(got, some[:n]...), last
	}
	if !slices.Equal(got, want) {
		t.Fatalf("batch %d uses %v, %v was announced", batch, got, want)
	}
}

// TestUsed: a row that all who announced it have looked up counts as used at its
// next batch, or not at all, whether the batch has passed or not.
func TestUsed(t *testing.T) {
	p := NewBelady(100, func(keys []uint64, frames []uint32) {
		for i, k := range keys {
			frames[i] = uint32(k)
		}
	})
	p.Grow(4)
	for f := range uint32(4) {
		p.Add(f, uint64(f))
	}
	p.Announce(0, []uint64{0, 1, 2, 3})
	p.Announce(1, []uint64{0, 1, 2})
	p.Announce(2, []uint64{3})
	p.Announce(0, []uint64{0}) // a second worker's
	anyone := func(uint32) bool { return true }
	if batch, rows := p.Due(); batch != 0 || rows != 2 {
		t.Errorf("%d rows each from batch %d on, want 2 and 0", rows, batch)
	}
	for f := range uint32(3) {
		p.Used(f, uint64(f))
	}
	if batch, _ := p.Due(); batch != 1 {
		t.Errorf("batch %d is due, want 1", batch)
	}
	for _, want := range []uint32{1, 2} { // 0 and 3 are still used at 0
		if f, ok := p.VictimAfter(0, anyone); !ok || f != want {
			t.Errorf("row %d leaves (%v), want %d", f, ok, want)
		}
	}
	p.Used(3, 3)
	p.Used(0, 0)
	if f, ok := p.Victim(anyone); !ok || f != 3 {
		t.Errorf("row %d leaves (%v), want 3: it is used at 2", f, ok)
	}
	p.Passed(3)
	if _, ok := p.NextUse(0); ok {
		t.Error("there is a use behind the last batch")
	}
}

// TestWindowIsBounded: what does not fit is not taken, and nothing grows.
func TestWindowIsBounded(t *testing.T) {
	p := NewBelady(10, func(_ []uint64, frames []uint32) {
		for i := range frames {
			frames[i] = NoFrame
		}
	})
	before := p.Bytes()
	keys := []uint64{1, 2, 3, 4}
	for b, want := range []int{4, 4, 2, 0} {
		if n := p.Announce(uint64(b), keys); n != want {
			t.Errorf("batch %d: %d keys taken, want %d", b, n, want)
		}
	}
	if n := p.Announce(1, keys); n != 4 {
		t.Errorf("%d keys of a batch that has them were taken, want 4, and no room for them", n)
	}
	p.Passed(2)
	if n := p.Announce(9, keys); n != 4 {
		t.Errorf("%d keys taken after batches passed, want 4", n)
	}
	for b := uint64(100); b < 2000; b++ {
		p.Passed(b)
		p.Announce(b+7, keys)
	}
	if p.Bytes() > before+200 {
		t.Errorf("%d bytes, at first %d", p.Bytes(), before)
	}
}
