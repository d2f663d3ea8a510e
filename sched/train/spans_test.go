package train

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/client"
	"psrt/sched/compress"
	"psrt/sched/coord"
	"psrt/sched/coord/local"
)

// merging is a client whose steps have a row each, and that finds any number at any time.
type merging struct {
	rng  *rand.Rand
	even uint64
	kept []uint64
}

func (m *merging) Finds() int      { return 1 << m.rng.IntN(3) }
func (m *merging) Merge(steps int) { m.even = uint64(steps) }

// step is what is in the push of a step; the last one of a pass sends all, and has no row.
func (m *merging) step(clock uint64, last bool) (rows []uint64) {
	if !last {
		m.kept = append(m.kept, clock)
	}
	if last || (clock+1)%m.even == 0 {
		rows, m.kept = m.kept, nil
	}
	return rows
}

// mergingSpans are those of a worker's process.
func mergingSpans(t *testing.T, c coord.Coordinator, generation int, m *merging) *spans {
	w := &worker{job: &Job{Sync: ASP, OnWorkerLoss: LossRestart, Compress: compress.Choice{Merge: 4, MergeAuto: true}}, rank: &Rank{Coord: c, Generation: generation}}
	s := newSpans(t.Context(), w)
	s.merge, w.spans = m, s
	return s
}

// mergingLanes are three lanes' rows of a worker that trains passes.
type mergingLanes struct {
	pass, end uint64 // steps
	at        [3]uint64
	counts    [3][]int // by step
}

// live is a process: it has all lanes have its steps before dies, and of three after that each
// lane none, some or all.
func (l *mergingLanes) live(t *testing.T, s *spans, m *merging, from, dies uint64) {
	for clock := from; clock < min(l.end, dies+3); clock++ {
		last := clock%l.pass == l.pass-1
		if !last {
			if err := s.settle(clock); err != nil {
				t.Fatal(err)
			}
		}
		rows := m.step(clock, last)
		for i := range l.at {
			if l.at[i] != clock || clock >= dies && m.rng.IntN(2) == 0 {
				continue
			}
			l.at[i]++
			for _, r := range rows {
				l.counts[i][r]++
			}
		}
		if last && clock >= dies { // all lanes have a pass before the next begins
			return
		}
	}
}

// TestSpansOfTheDead: processes of one worker die while lanes have different ones of their
// steps, and again when they have hardly begun. Each lane has each step's row once in the end,
// whichever numbers each process would have merged.
func TestSpansOfTheDead(t *testing.T) {
	rng := seedtest.Fixed(t, 5)
	moved := 0
	for range 300 {
		c := local.New()
		l := mergingLanes{pass: uint64(3 + rng.IntN(40))}
		l.end = l.pass * uint64(1+rng.IntN(4))
		for i := range l.counts {
			l.counts[i] = make([]int, l.end)
		}
		var before *spans
		for generation := 1; slices.Min(l.at[:]) < l.end; generation++ {
			m := &merging{rng: rng, even: 1}
			s := mergingSpans(t, c, generation, m)
			from := slices.Min(l.at[:])
			if s.w.clock = from / l.pass * l.pass; from > 0 && s.w.clock == from && rng.IntN(2) == 0 {
				s.w.clock -= l.pass // it had not written down yet that the pass was over
			}
			if generation > 1 {
				s.w.inherited = &inherited{fresh: slices.Max(l.at[:])}
				if err := s.inherit(t.Context()); err != nil {
					t.Fatal(err)
				}
				late(t, before)
				var err error
				if from, err = s.w.heldSince(t.Context(), from); err != nil {
					t.Fatal(err)
				}
			}
			dies := from + uint64(rng.IntN(30))
			if generation == 9 {
				dies = l.end
			}
			l.live(t, s, m, from, dies)
			moved += len(s.card.Moves) - 1
			before = s
		}
		for i, counts := range l.counts {
			for clock, got := range counts {
				want := 1
				if uint64(clock)%l.pass == l.pass-1 {
					want = 0
				}
				if got != want {
					t.Fatalf("passes of %d steps: lane %d has %d rows of step %d, want %d", l.pass, i, got, clock, want)
				}
			}
		}
		c.Close()
	}
	if moved == 0 {
		t.Error("no number has changed: this shows nothing")
	}
}

// late has a process that is not quite dead write down another number: it is taken over.
func late(t *testing.T, s *spans) {
	t.Helper()
	for clock := uint64(1 << 20); ; clock += s.whole {
		if err := s.settle(clock); errors.Is(err, client.ErrTakenOver) {
			return
		} else if err != nil || clock > 1<<21 {
			t.Fatalf("who was taken over may write down another number: %v", err)
		}
	}
}

// TestSpansWithoutCoordinator: while the coordinator does not answer the number stays, and
// training goes on.
func TestSpansWithoutCoordinator(t *testing.T) {
	c := local.New()
	defer c.Close()
	mute := &mute{c, make(chan struct{})}
	m := &merging{rng: rand.New(rand.NewPCG(1, 2)), even: 1}
	s := mergingSpans(t, mute, 1, m)
	for clock := range uint64(200) {
		if err := s.settle(clock); err != nil || m.even != 1 || len(s.card.Moves) != 1 {
			t.Fatalf("step %d: %v, %d, %v", clock, err, m.even, s.card.Moves)
		}
	}
	if s.later == 0 {
		t.Error("it was not asked")
	}
	close(mute.speak)
	for clock := uint64(200); clock < 400; clock++ {
		if err := s.settle(clock); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.card.Moves) == 1 {
		t.Error("the number stays when the coordinator is back")
	}
}

// TestSpansTooOld: of a step before the oldest number that is kept nobody guesses one.
func TestSpansTooOld(t *testing.T) {
	s := &spans{w: &worker{rank: &Rank{}}, card: spanCard{Moves: []spanMove{{8, 2}, {12, 4}}}}
	for step, want := range map[uint64]uint64{8: 2, 11: 2, 12: 4, 99: 4} {
		if n, err := s.of(step); n != want || err != nil {
			t.Errorf("step %d: %d, %v, want %d", step, n, err, want)
		}
	}
	if n, err := s.of(7); err == nil {
		t.Errorf("step 7: %d", n)
	}
}
