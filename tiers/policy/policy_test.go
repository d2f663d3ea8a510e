package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// naive is a second implementation of a policy: slices and maps.
type naive interface {
	add(f uint32, key uint64)
	touch(f uint32)
	remove(f uint32)
	victim(may func(uint32) bool) (uint32, bool)
}

func cut(s []uint32, f uint32) []uint32 {
	if i := slices.Index(s, f); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}

type naiveLRU struct{ order []uint32 }

func (n *naiveLRU) add(f uint32, _ uint64) { n.order = append(cut(n.order, f), f) }
func (n *naiveLRU) touch(f uint32)         { n.order = append(cut(n.order, f), f) }
func (n *naiveLRU) remove(f uint32)        { n.order = cut(n.order, f) }
func (n *naiveLRU) victim(may func(uint32) bool) (uint32, bool) {
	for range len(n.order) {
		f := n.order[0]
		n.order = n.order[1:]
		if may(f) {
			return f, true
		}
		n.order = append(n.order, f)
	}
	return 0, false
}

type naiveS3 struct {
	small, main []uint32
	count       map[uint32]int
	keys        map[uint32]uint64
	gone        []uint64 // oldest first; taken keys stay as holes
	taken       []bool
}

func (n *naiveS3) add(f uint32, key uint64) {
	n.count[f], n.keys[f] = 0, key
	for i := len(n.gone) - 1; i >= 0; i-- {
		if n.gone[i] == key && !n.taken[i] {
			n.taken[i] = true
			n.main = append(n.main, f)
			return
		}
	}
	n.small = append(n.small, f)
}
func (n *naiveS3) touch(f uint32)  { n.count[f] = min(3, n.count[f]+1) }
func (n *naiveS3) remove(f uint32) { n.small, n.main = cut(n.small, f), cut(n.main, f) }
func (n *naiveS3) victim(may func(uint32) bool) (uint32, bool) {
	all := len(n.small) + len(n.main)
	for range 5 * all {
		if len(n.small)*10 >= all || len(n.main) == 0 {
			f := n.small[0]
			n.small = n.small[1:]
			if n.count[f] >= 2 || !may(f) {
				n.count[f] = 0
				n.main = append(n.main, f)
				continue
			}
			if n.gone, n.taken = append(n.gone, n.keys[f]), append(n.taken, false); len(n.gone) > all {
				n.gone, n.taken = n.gone[1:], n.taken[1:]
			}
			return f, true
		}
		f := n.main[0]
		n.main = n.main[1:]
		if n.count[f] > 0 || !may(f) {
			n.count[f] = max(0, n.count[f]-1)
			n.main = append(n.main, f)
			continue
		}
		return f, true
	}
	return 0, false
}

// walk drives a policy and its second implementation alike: a cache of frames,
// always full when Victim is asked.
func walk(t *testing.T, r *rand.Rand, p Policy, n naive) {
	const frames, places = 24, 600 // where there are many more places, no set of remembered keys is ever full
	p.Grow(places)
	at := map[uint64]uint32{}
	keys := make([]uint64, frames)
	free := []uint32{}
	for f := range uint32(frames) {
		free = append(free, f)
	}
	for step := range 5000 {
		key := r.Uint64N(15)
		if r.IntN(3) == 0 {
			key = r.Uint64N(200)
		}
		switch f, ok := at[key]; {
		case ok && r.IntN(100) == 0:
			p.Remove(f, key)
			n.remove(f)
			delete(at, key)
			free = append(free, f)
		case ok:
			p.Touch(f, key)
			n.touch(f)
		default:
			if len(free) == 0 {
				pinned := map[uint32]bool{}
				for range r.IntN(30) {
					pinned[r.Uint32N(frames)] = true
				}
				may := func(f uint32) bool { return !pinned[f] }
				got, ok := p.Victim(may)
				want, wantOK := n.victim(may)
				if ok != wantOK || ok && got != want {
					t.Fatalf("step %d: victim %d (%v), want %d (%v)", step, got, ok, want, wantOK)
				}
				if !ok {
					continue
				}
				delete(at, keys[got])
				free = append(free, got)
			}
			f = free[len(free)-1]
			free = free[:len(free)-1]
			at[key], keys[f] = f, key
			p.Add(f, key)
			n.add(f, key)
		}
	}
	if p.Bytes() > places*FrameBytes*2+1000 {
		t.Errorf("%d bytes for %d frames", p.Bytes(), frames)
	}
	p.Reset()
	if f, ok := p.Victim(func(uint32) bool { return true }); ok {
		t.Errorf("victim %d after reset", f)
	}
}

func TestAgainstNaive(t *testing.T) {
	for range 5 {
		r := seedtest.Rand(t)
		walk(t, r, NewLRU(), &naiveLRU{})
		walk(t, r, NewS3FIFO(), &naiveS3{count: map[uint32]int{}, keys: map[uint32]uint64{}})
	}
}

// script drives a policy by hand: frame and key are the same number.
func script(p Policy, ops string) (left []uint32) {
	p.Grow(100)
	for _, op := range ops {
		f := uint32(op | 32 - 'a')
		switch {
		case op == '.':
			if v, ok := p.Victim(func(uint32) bool { return true }); ok {
				left = append(left, v)
			}
		case op >= 'a':
			p.Add(f, uint64(f))
		default:
			p.Touch(f, uint64(f))
		}
	}
	return left
}

// TestScripts: small letters come in, capitals are looked up, a dot lets one go.
func TestScripts(t *testing.T) {
	for _, c := range []struct {
		name, ops, want string
		p               Policy
	}{
		{"lru", "abcA...", "bca", NewLRU()},
		{"lru, all touched", "abcBAC..", "ba", NewLRU()},
		{"s3fifo, one by one", "abc...", "abc", NewS3FIFO()},
		{"s3fifo, looked up twice it stays", "abcAA..", "bc", NewS3FIFO()},
		{"s3fifo, once is not enough", "abcA..", "ab", NewS3FIFO()},
		{"s3fifo, remembered it goes to main", "ab.a.c.", "abc", NewS3FIFO()},
	} {
		got := ""
		for _, f := range script(c.p, c.ops) {
			got += string(rune('a' + f))
		}
		if got != c.want {
			t.Errorf("%s: %q let %q go, want %q", c.name, c.ops, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, name := range []string{"", NameBelady, NameS3FIFO, NameLRU} {
		if err := Check(name); err != nil {
			t.Error(err)
		}
	}
	if err := Check("mru"); err == nil || fmt.Sprint(err) != `policy: "mru", want belady, s3fifo or lru` {
		t.Error(err)
	}
}
