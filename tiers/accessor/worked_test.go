package accessor

import (
	"math"
	"slices"
	"testing"

	"psrt/tiers/table"
)

// The values worked out by hand for nonclk_coeff .1 and click_coeff 1.

func TestWorkedScore(t *testing.T) {
	s := newStore(t, living(4, nil), 1)
	s.push(1, 0, 100, 3, 0)
	if got := s.acc.Score(s.now(1)); math.Abs(got-12.7) > 1e-12 {
		t.Errorf("score %v, want 12.7", got)
	}
	c := s.counters(1)
	if !c.Extended() {
		t.Error("12.7 >= 10, and there is no vector")
	}
}

// TestWorkedExtension: shows of 1 extend a row at the 100th push, not before;
// that push's vector gradient is dropped.
func TestWorkedExtension(t *testing.T) {
	s := newStore(t, living(4, func(l *table.Lifecycle) { l.DeleteThreshold = 0 }), 1)
	for i := 1; i <= 100; i++ {
		s.push(1, 0, 1, 0, 0.5)
		c := s.counters(1)
		if c.Extended() != (i >= 100) {
			t.Fatalf("extended %v after push %d, score %v", c.Extended(), i, s.acc.Score(s.now(1)))
		}
		if pulled := s.pull(1); pulled[0] == 0 || !slices.Equal(pulled[1:], make([]float32, 3)) != c.Extended() {
			t.Fatalf("pulled %v after push %d", pulled, i)
		}
	}
	born := make([]float32, s.acc.RowFloats())
	s.acc.Born(1, born)
	if got := s.pull(1)[1:]; !slices.Equal(got, born[1:4]) {
		t.Errorf("the vector begins with %v, want what the key draws, %v", got, born[1:4])
	}
	s.push(1, 0, 1, 0, 0.5)
	if got := s.pull(1)[1:]; slices.Equal(got, born[1:4]) {
		t.Error("the next push did not change the vector")
	}
}

// TestWorkedDecay: from 12.7 by .98 a day below .8 first on day 137.
func TestWorkedDecay(t *testing.T) {
	for _, c := range []struct {
		keep, last int // last day alive
	}{{1 << 30, 136}, {30, 30}} {
		s := newStore(t, living(4, func(l *table.Lifecycle) { l.DeleteAfterUnseenDays = c.keep }), 1)
		s.push(1, 0, 100, 3, 0)
		day := 0
		for s.now(1) != nil && day < 200 {
			day++
			s.happen(Day, Shrink) // a shrink in which unseen_days is day
		}
		if day-1 != c.last {
			t.Errorf("delete_after_unseen_days %d: gone on day %d, want %d", c.keep, day, c.last+1)
		}
		if c.keep > 1000 {
			if score := 12.7 * math.Pow(0.98, 136); math.Abs(score-0.814) > 1e-3 {
				t.Errorf("the formula gives %v", score)
			}
		}
	}
}

// TestWorkedAge: unseen days count saves of mode 3 and nothing else.
func TestWorkedAge(t *testing.T) {
	s := newStore(t, living(4, func(l *table.Lifecycle) { l.ShowClickDecayRate = 1 }), 1)
	s.push(1, 0, 100, 3, 0)
	for range 100 {
		s.happen(Shrink)
	}
	if c := s.counters(1); c.UnseenDays != 0 || c.Show != 100 {
		t.Errorf("100 shrinks without a day: %+v", c)
	}
	for range 30 {
		s.happen(Day)
	}
	s.happen(Shrink)
	if s.now(1) == nil {
		t.Fatal("gone after 30 days unseen, 30 are allowed")
	}
	s.happen(Day)
	if s.now(1) == nil {
		t.Error("gone without a shrink")
	}
	s.happen(Shrink)
	if s.now(1) != nil {
		t.Error("31 days unseen, and alive after a shrink")
	}
}

// TestWorkedDelta: 12.7 with a delta_score of .2 is in no delta; after one more
// click it is, and is reset once the save is good.
func TestWorkedDelta(t *testing.T) {
	s := newStore(t, living(4, func(l *table.Lifecycle) { l.ShowClickDecayRate = 1 }), 1)
	s.push(1, 0, 98, 3, 0)
	s.happen(CutBase, Saved)
	s.push(1, 0, 2, 0, 0)
	if c := s.counters(1); math.Abs(c.DeltaScore-0.2) > 1e-12 || s.acc.Keep(ModeDelta, s.now(1)) {
		t.Fatalf("delta_score %v, in a delta: %v", c.DeltaScore, s.acc.Keep(ModeDelta, s.now(1)))
	}
	s.happen(CutDelta, Saved)
	s.push(1, 0, 1, 1, 0)
	if c := s.counters(1); math.Abs(c.DeltaScore-1.2) > 1e-12 || !s.acc.Keep(ModeDelta, s.now(1)) {
		t.Fatalf("delta_score %v, in a delta: %v; a save without the row must not reset it", c.DeltaScore, s.acc.Keep(ModeDelta, s.now(1)))
	}
	s.happen(CutDelta, Saved)
	if c := s.counters(1); c.DeltaScore != 0 || c.Pending != 0 || !c.Served() {
		t.Errorf("after the save: %+v", c)
	}
}

// TestWorkedAdaGrad: the two steps, for both forms of the sum.
func TestWorkedAdaGrad(t *testing.T) {
	for _, rule := range []string{table.PartAdaGrad, table.PartStdAdaGrad} {
		s := newStore(t, living(1, func(l *table.Lifecycle) { l.Embed = table.PartRule{Rule: rule} }), 1)
		for step, want := range []float64{-0.1, -0.1 - 0.1*math.Sqrt(3.0/7)} {
			s.push(1, 0, 1, 0, 2)
			row := s.now(1)
			if got := float64(row[0]); math.Abs(got-want) > 1e-6 || row[1] != float32(4*(step+1)) {
				t.Errorf("%s: after step %d w = %v, G = %v, want %v and %d", rule, step+1, got, row[1], want, 4*(step+1))
			}
		}
	}
}

// TestWorkedCounters: defect 13 (and 6 of the worked values): counters grow where
// a float32 would stand still.
func TestWorkedCounters(t *testing.T) {
	s := newStore(t, living(1, nil), 1)
	for _, start := range []float64{1 << 24, 1 << 40} {
		s.push(1, 0, 0, 0, 0)
		c := s.counters(1)
		c.Show, c.Click, c.DeltaScore = start, start, start
		c.encode(s.acc.words(s.row(1)))
		for range 3 {
			s.push(1, 0, 1, 1, 0)
		}
		if c := s.counters(1); c.Show != start+3 || c.Click != start+3 || c.DeltaScore != start+3 {
			t.Errorf("from %v by three ones: %+v", start, c)
		}
	}
}
