package train

import (
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

func TestAgree(t *testing.T) {
	fresh := func(needs uint64) denseStand { return denseStand{clean: true, needs: needs} }
	old := func(applied, oldest uint64) denseStand {
		return denseStand{has: true, clean: true, applied: applied, needs: applied, oldest: oldest}
	}
	dirty, ended := fresh(5), fresh(9)
	dirty.clean = false
	ended.pastSums = true
	for _, c := range []struct {
		name string
		all  []denseStand
		want agreement
		ok   bool
	}{
		{"a beginning", []denseStand{fresh(0), fresh(0)}, agreement{load: true}, true},
		{"all died between two steps", []denseStand{fresh(5), fresh(5)}, agreement{load: true}, true},
		{"all died in a step", []denseStand{dirty, fresh(5)}, agreement{}, false},
		{"all died, not at once", []denseStand{fresh(4), fresh(5)}, agreement{}, false},
		{"nothing to tell", []denseStand{old(7, 4), old(7, 5)}, agreement{root: 0, from: 7, to: 7}, true},
		{"one lacks a sum", []denseStand{old(6, 4), old(7, 4)}, agreement{root: 1, from: 6, to: 7}, true},
		{"a new one", []denseStand{fresh(7), old(7, 4)}, agreement{root: 1, from: 4, to: 7, state: true}, true},
		{"a new one computes again", []denseStand{old(7, 6), fresh(5), old(7, 5)}, agreement{root: 2, from: 5, to: 7, state: true}, true},
		{"what nobody has kept", []denseStand{old(7, 6), fresh(5)}, agreement{}, false},
		{"one that is ahead of all sums", []denseStand{old(7, 6), ended}, agreement{root: 0, from: 6, to: 7, state: true}, true},
		{"what nobody has", []denseStand{old(7, 6), fresh(8)}, agreement{}, false},
	} {
		got, err := agree(c.all)
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

// What workers can be asked to tell, they have: whoever dies, at any moment between two
// pushes, and whatever the others have got of the last sum.
func TestAgreeInAnyJob(t *testing.T) {
	rng := seedtest.Rand(t)
	for range 2000 {
		n := 1 + rng.IntN(6)
		calls := uint64(rng.IntN(9)) // whose sums somebody has
		all := make([]denseStand, n)
		for i := range all {
			applied := calls
			if rng.IntN(3) == 0 && calls > 0 {
				applied--
			}
			h := history{room: pastSteps}
			for step := range applied {
				h.add(step, []float32{float32(step)}, []float32{float32(step)})
			}
			if i > 0 && rng.IntN(2) == 0 {
				// Pushes of all steps below calls-2 are answered, and no step is pushed
				// that was not added.
				least := calls - min(calls, 2)
				all[i] = denseStand{clean: true, pastSums: rng.IntN(2) == 0, needs: least + rng.Uint64N(calls-least+1)}
				continue
			}
			all[i] = denseStand{has: true, clean: true, applied: applied, needs: applied, oldest: h.oldest(applied)}
		}
		all[0] = denseStand{has: true, clean: true, applied: calls, needs: calls, oldest: calls - min(calls, pastSteps)}
		a, err := agree(all)
		if err != nil {
			t.Fatalf("%+v: %v", all, err)
		}
		var b [standBytes]byte
		for i, s := range all {
			var again denseStand
			s.encode(b[:])
			if again.decode(b[:]); again != s {
				t.Fatalf("%+v became %+v", s, again)
			}
			if s.needs < a.from || a.to < s.applied || a.from < all[a.root].oldest {
				t.Fatalf("worker %d of %+v is left out of %+v", i, all, a)
			}
		}
		if news := slices.ContainsFunc(all, func(s denseStand) bool { return !s.has }); news != a.state {
			t.Fatalf("%+v of %+v", a, all)
		}
	}
}

// A history keeps as many sums as it has room for, whatever steps without any lie between them.
func TestHistoryBetweenPasses(t *testing.T) {
	h := history{room: 3}
	for step := range uint64(40) {
		if step%10 > 4 {
			h.skip(step)
		} else {
			h.add(step, []float32{float32(step)}, []float32{1})
		}
		sums := 0
		for at := h.oldest(step); at <= step; at++ {
			p, err := h.of(at)
			if err != nil || p.none != (at%10 > 4) || !p.none && p.before[0] != float32(at) {
				t.Fatalf("behind step %d, step %d: %+v, %v", step, at, p, err)
			}
			if !p.none {
				sums++
			}
		}
		if want := min(3, int(step)+1); sums != want {
			t.Fatalf("%d sums behind step %d, want %d", sums, step, want)
		}
	}
}
