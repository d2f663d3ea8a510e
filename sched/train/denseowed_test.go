package train

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/clock"
	"psrt/sched/psmsg"
)

// owedLane is a lane of a dense rank: it counts each number once, and refuses what servers
// refuse.
type owedLane struct {
	t *testing.T
	stands
	next uint64 // of the process that pushes
}

// push sends a push, or a tick of a clock.
func (l *owedLane) push(p owedPush, at uint64) {
	l.t.Helper()
	if !p.tick && !l.dense {
		return
	}
	if l.next++; l.next <= l.Last {
		return
	}
	if l.next != l.Last+1 || at != l.At {
		l.t.Fatalf("lane %d, which has %+v, is sent number %d at clock %d", l.lane, l.Standing, l.next, at)
	}
	l.Last++
	if p.tick {
		l.At++
		return
	}
	if p.step != l.Parts[p.of] {
		l.t.Fatalf("lane %d, which has %+v, is sent step %d of worker %d", l.lane, l.Standing, p.step, p.of)
	}
	l.Parts[p.of]++
}

// TestOwes: dense ranks die one after the other, each having sent every lane another
// beginning of what it had to; each that goes on makes up for that, and no push counts twice.
func TestOwes(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.Seed(t), 9))
	const workers = 3
	for range 2000 {
		lanes := make([]*owedLane, 1+rng.IntN(5))
		for i := range lanes {
			lanes[i] = &owedLane{t: t, stands: stands{lane: i, dense: i == 0 || rng.IntN(2) == 0}}
			lanes[i].Parts = make([]uint64, workers)
		}
		o := owed{done: map[int]uint64{}, some: map[int]uint64{}}
		for range 5 {
			at, done := o.from, make([]uint64, workers)
			sends := slices.Clone(o.pushes)
			for _, p := range sends {
				if p.tick {
					at++
				}
			}
			for w := range done {
				done[w] = o.some[w]
			}
			for range rng.IntN(20) { // what it pushes beside what it owes
				w := rng.IntN(workers)
				sends = append(sends, owedPush{of: w, step: done[w]})
				done[w]++
				for ; slices.Min(done) > at; at++ {
					sends = append(sends, owedPush{tick: true, step: at})
				}
			}
			for _, l := range lanes {
				at := o.from
				for _, p := range sends[:max(0, len(sends)-rng.IntN(12))] {
					l.push(p, at)
					if p.tick {
						at++
					}
				}
			}
			all := make([]stands, len(lanes))
			for i, l := range lanes {
				all[i] = l.stands
			}
			var sent []uint64
			var err error
			if o, sent, _, err = owes("dense rank 0", workers, all); err != nil {
				t.Fatal(err)
			}
			for i, l := range lanes {
				l.next = sent[i]
			}
		}
		for _, l := range lanes {
			at := o.from
			for _, p := range o.pushes {
				l.push(p, at)
				if p.tick {
					at++
				}
			}
			for w := range workers {
				if l.dense && l.Parts[w] != o.some[w] {
					t.Fatalf("lane %d is left with %+v, want %v", l.lane, l.Standing, o.some)
				}
			}
		}
	}
}

// TestOwesNothing: who finds that the rank is leaving has nothing to push, and a lane that does
// not say whose pushes it has is refused.
func TestOwesNothing(t *testing.T) {
	left := stands{Standing: psmsg.Standing{Last: 9, At: clock.None}, dense: true}
	still := stands{Standing: psmsg.Standing{Last: 9, At: 3, Parts: []uint64{3, 3}}, lane: 1, dense: true}
	if _, _, over, err := owes("dense rank 0", 2, []stands{left, left}); err != nil || !over {
		t.Errorf("of lanes that all have seen it leave: %v, %v", over, err)
	}
	o, sent, over, err := owes("dense rank 0", 2, []stands{left, still})
	if err != nil || over || len(o.pushes) > 0 || o.done[1] != clock.None || sent[1] != 9 {
		t.Errorf("of one that has, and one that has not: %+v, %v, %v, %v", o, sent, over, err)
	}
	still.Parts = nil
	if _, _, _, err := owes("dense rank 0", 2, []stands{still}); err == nil || !strings.Contains(err.Error(), "run the same psrt everywhere") {
		t.Errorf("of one that does not say whose they are: %v", err)
	}
}
