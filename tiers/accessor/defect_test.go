package accessor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/table"
)

// The defects of the model that the rules come from, by their numbers. Those of
// storages (2, 4 to 6, 11) and of saved files (7, 12) are tested there, too; here
// is what a row does to make them impossible.

// TestDefect1: a push without shows leaves finite weights.
func TestDefect1(t *testing.T) {
	for _, rule := range []string{table.PartNaive, table.PartAdaGrad, table.PartStdAdaGrad, table.PartAdam, table.PartSharedAdam, ""} {
		s := newStore(t, living(5, func(l *table.Lifecycle) {
			l.EmbedxThreshold = 0
			l.Embed.Rule, l.Embedx.Rule = rule, rule
		}), 1)
		if refused := s.push(1, 0, 0, 0, 1); refused != 0 {
			t.Errorf("%q: a push without shows was refused", rule)
		}
		for _, w := range s.pull(1) {
			if w == 0 || math.IsNaN(float64(w)) || math.IsInf(float64(w), 0) {
				t.Errorf("%q: weights %v", rule, s.pull(1))
			}
		}
		before := slices.Clone(s.row(1))
		for _, bad := range []float32{-1, float32(math.NaN()), float32(math.Inf(1))} {
			for at, push := range [][4]float32{{bad, 1, 0, 1}, {0, bad, 0, 1}, {0, 1, bad, 1}} {
				if s.acc.Update(&s.rows, s.lookup([]uint64{1}, true), append(push[:], 1, 1, 1, 1)) != 1 {
					t.Errorf("%v at %d of a push was taken", bad, at)
				}
			}
		}
		if !equalBits(before, s.row(1)) {
			t.Error("a refused push changed the row")
		}
	}
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// TestDefect2And3: a row ages and keeps its delta wherever it lies: through bytes,
// as a disk has them, and unread for days.
func TestDefect2And3(t *testing.T) {
	mem, disk := newStore(t, living(3, nil), 1), newStore(t, living(3, nil), 1)
	for _, s := range []*store{mem, disk} {
		s.push(1, 7, 100, 30, 1)
	}
	var parked []byte
	park := func() {
		for _, x := range disk.row(1) {
			parked = binary.LittleEndian.AppendUint32(parked, math.Float32bits(x))
		}
		clear(disk.row(1))
	}
	unpark := func() {
		row := disk.row(1)
		for i := range row {
			row[i] = math.Float32frombits(binary.LittleEndian.Uint32(parked[4*i:]))
		}
		parked = nil
	}
	park()
	for day := range 9 {
		for _, s := range []*store{mem, disk} {
			s.happen(Shrink, Day)
		}
		if day == 4 {
			mem.lookup([]uint64{1}, false) // one store looks daily, the other does not
		}
	}
	for _, s := range []*store{mem, disk} {
		s.happen(CutDelta)
	}
	unpark()
	if c := disk.counters(1); !c.InSave() || c.UnseenDays != 9 || c.Slot != 7 {
		t.Errorf("the row from the disk: %+v", c)
	}
	if !equalBits(mem.now(1), disk.now(1)) {
		t.Errorf("in memory %v, from the disk %v", mem.counters(1), disk.counters(1))
	}
}

// TestDefect8: pushes while a save is written are in the next delta; nothing of
// delta_score is lost or counted twice.
func TestDefect8(t *testing.T) {
	r := seedtest.Rand(t)
	s := newStore(t, living(2, func(l *table.Lifecycle) {
		l.NonclkCoeff, l.ShowClickDecayRate = 0.125, 1 // sums of eighths are exact
		l.BaseThreshold, l.DeleteThreshold = 0, 0
	}), 1)
	pushed, inDeltas := map[uint64]float64{}, map[uint64]float64{}
	push := func() {
		for range r.IntN(30) {
			k, show := r.Uint64N(20), float32(1+r.IntN(5))
			click := float32(r.IntN(int(show)))
			s.push(k, 0, show, click, 0)
			pushed[k] += 0.125*float64(show-click) + float64(click)
		}
	}
	for range 200 {
		push()
		s.happen(CutDelta)
		push()
		saved := s.saved()
		push()
		for k, c := range s.saved() {
			if saved[k].Pending != c.Pending {
				t.Fatalf("key %d has %v in the save, had %v", k, c.Pending, saved[k].Pending)
			}
		}
		if r.IntN(3) == 0 {
			s.happen(Failed)
			continue
		}
		s.happen(Saved)
		for k, c := range saved {
			inDeltas[k] += c.Pending
		}
	}
	for k, sum := range pushed {
		if got := inDeltas[k] + s.counters(k).DeltaScore; got != sum {
			t.Errorf("key %d: %v in deltas and on the way, %v were pushed", k, got, sum)
		}
	}
}

// TestDefect9: a save that fails, of either mode, resets nothing.
func TestDefect9(t *testing.T) {
	for _, cut := range []EventKind{CutDelta, CutBase} {
		s := newStore(t, living(2, nil), 1)
		s.push(1, 0, 100, 30, 0)
		before := s.counters(1).DeltaScore
		s.happen(cut, Failed)
		if c := s.counters(1); c.DeltaScore != before || c.Pending != 0 || c.Served() {
			t.Errorf("after a failed save: %+v, delta_score was %v", c, before)
		}
		s.happen(CutDelta)
		if !s.counters(1).InSave() {
			t.Error("the next delta lacks the row")
		}
		s.happen(Saved)
		if c := s.counters(1); c.DeltaScore != 0 {
			t.Errorf("after a good save: %+v", c)
		}
	}
}

// TestDefect10: a served row that goes is in the next delta as a tombstone, until
// a save with it is good, also when its key has come back.
func TestDefect10(t *testing.T) {
	s := newStore(t, living(2, nil), 1)
	s.push(1, 0, 100, 30, 0)
	s.push(2, 0, 100, 30, 0)
	s.push(3, 0, 1, 0, 0) // below base_threshold: never served
	s.happen(CutBase, Saved)
	for range 31 {
		s.happen(Day)
	}
	s.happen(Shrink)
	s.push(2, 0, 1, 0, 0)
	s.sweep()
	if len(s.ids) != 1 || s.counters(2).Show != 1 {
		t.Fatalf("left are %v, key 2 with %+v", s.ids, s.counters(2))
	}
	for _, end := range []EventKind{Failed, Failed, Saved} {
		s.happen(CutDelta)
		if got := s.acc.Graves().Cut(); !slices.Equal(got, []uint64{1, 2}) {
			t.Fatalf("tombstones %v, want 1 and 2", got)
		}
		s.happen(end)
	}
	s.happen(CutDelta)
	if got := s.acc.Graves().Cut(); len(got) != 0 {
		t.Errorf("tombstones %v after a good save", got)
	}
}

// TestGravesAreBounded: what cannot be remembered makes a base necessary, and no
// delta possible that would be wrong.
func TestGravesAreBounded(t *testing.T) {
	s := newStore(t, living(2, nil), 1)
	s.acc.life.graves.limit = 2
	for k := range uint64(3) {
		s.push(k, 0, 100, 30, 0)
	}
	s.happen(CutBase, Saved)
	for range 31 {
		s.happen(Day)
	}
	s.happen(Shrink)
	s.sweep()
	lost := func(after string, want bool) {
		t.Helper()
		s.happen(CutDelta)
		if s.acc.Graves().CutLost() != want {
			t.Fatalf("%s: a delta lacks tombstones: %v, want %v", after, !want, want)
		}
		s.happen(Failed)
	}
	lost("of three", true)
	lost("after a delta that failed", true)
	s.happen(CutBase, Failed)
	lost("after a base that failed", true)
	s.happen(CutBase, Saved)
	lost("after a base", false)
}

// TestDefect14: a row's weights, vector and admission do not depend on when and
// in which order keys come.
func TestDefect14(t *testing.T) {
	r := seedtest.Rand(t)
	spec := living(6, func(l *table.Lifecycle) {
		l.Admit, l.AdmitProbability = table.AdmitProbability, 0.5
		l.Embed, l.Embedx = table.PartRule{Rule: table.PartNaive}, table.PartRule{Rule: table.PartAdaGrad}
	})
	seed := r.Uint64()
	pushAll := func(order []int) map[uint64][]float32 {
		s := newStore(t, spec, seed)
		out := map[uint64][]float32{}
		for range 3 {
			for _, k := range order {
				s.push(uint64(k), 1, 40, 2, 0.25)
			}
		}
		for _, k := range order {
			out[uint64(k)] = s.pull(uint64(k))
		}
		return out
	}
	a, b := pushAll(r.Perm(100)), pushAll(r.Perm(100))
	admitted, bounded := 0, float32(1e-4)
	for k := range a {
		if !equalBits(a[k], b[k]) {
			t.Errorf("key %d: %v, in another order %v", k, a[k], b[k])
		}
		if a[k][0] != 0 {
			admitted++
		}
	}
	if admitted < 20 || admitted > 80 {
		t.Errorf("%d of 100 keys admitted, want about half", admitted)
	}
	born := make([]float32, spec.RowFloats())
	acc, _ := New(spec, seed)
	acc.Born(5, born)
	for i, w := range born[1:6] {
		if w == 0 || w < -bounded || w >= bounded {
			t.Errorf("weight %d of the vector begins at %v, want within 1e-4", i, w)
		}
	}
	if born[0] != 0 {
		t.Errorf("the first weight of %s begins at %v", fmt.Sprint(spec.Lifecycle.Embed), born[0])
	}
}
