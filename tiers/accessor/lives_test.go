package accessor

import (
	"math"
	"slices"
	"sort"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/table"
)

// TestNeutralLifecycle: a lifecycle that forbids nothing trains the weights that
// a table without one does, to the bit, for every optimizer of one weight at a
// time.
func TestNeutralLifecycle(t *testing.T) {
	r := seedtest.Rand(t)
	for _, o := range []table.Optimizer{{Kind: table.SGD, L2: 0.1}, {Kind: table.AdaGrad, InitialAccumulator: 0.1}, {Kind: table.Adam},
		{Kind: table.FTRL, L1: 0.01}, {Kind: table.Sum}, {Kind: table.Assign}} {
		for _, dim := range []int{1, 2, 17, 40} {
			spec := living(dim, func(l *table.Lifecycle) { l.EmbedxThreshold, l.ShowScale, l.CreateValueWhenPush = 0, false, false })
			spec.Optimizer = o
			plain := spec
			plain.Lifecycle = nil
			a, b := newStore(t, spec, 9), newStore(t, plain, 9)
			for range 200 {
				key := r.Uint64N(10)
				if !equalBits(a.pull(key), b.pull(key)) {
					t.Fatalf("%s, dim %d: %v with a lifecycle, %v without", o.Kind, dim, a.pull(key), b.pull(key))
				}
				push := make([]float32, table.PushCounts+dim)
				for i := range push[table.PushCounts:] {
					push[table.PushCounts+i] = float32(r.NormFloat64())
				}
				push[1] = 2
				if r.IntN(50) == 0 {
					push[table.PushCounts+r.IntN(dim)] = float32(math.Inf(-1))
				}
				got := a.acc.Update(&a.rows, a.lookup([]uint64{key}, true), push)
				if want := b.acc.Update(&b.rows, b.lookup([]uint64{key}, true), push[table.PushCounts:]); got != want {
					t.Fatalf("%s, dim %d: %d refused with a lifecycle, %d without", o.Kind, dim, got, want)
				}
			}
		}
	}
}

// TestPartBirth: parts with rules of their own begin as these say.
func TestPartBirth(t *testing.T) {
	spec := living(3, func(l *table.Lifecycle) {
		l.Embed = table.PartRule{Rule: table.PartAdam, InitialRange: 0.5}
		l.Embedx = table.PartRule{Rule: table.PartSharedAdam, InitialRange: 2}
	})
	row := born(t, spec, 5, 77)
	if w := row[0]; w == 0 || w < -0.5 || w >= 0.5 {
		t.Errorf("the first weight begins at %v", w)
	}
	for _, w := range row[1:3] {
		if w == 0 || w < -2 || w >= 2 {
			t.Errorf("the vector begins at %v", row[1:3])
		}
	}
	if state := row[3:spec.LifeAt()]; !slices.Equal(state, []float32{0, 0, 1, 1, 0, 0, 1, 1}) {
		t.Errorf("state %v", state)
	}
	if !equalBits(row, born(t, spec, 5, 77)) || equalBits(row[:3], born(t, spec, 6, 77)[:3]) || equalBits(row[:3], born(t, spec, 5, 78)[:3]) {
		t.Error("weights are not a function of seed and key")
	}
}

// TestBounds: weights stay within, whatever is pushed, and leave the bound again.
func TestBounds(t *testing.T) {
	for _, rule := range []string{"", table.PartNaive, table.PartAdaGrad, table.PartStdAdaGrad, table.PartAdam, table.PartSharedAdam} {
		s := newStore(t, living(3, func(l *table.Lifecycle) {
			l.EmbedxThreshold = 0
			l.Embed = table.PartRule{Rule: rule, LearningRate: 1, WeightBounds: table.Bounds{-0.25, 0.5}}
			l.Embedx = table.PartRule{Rule: rule, LearningRate: 1, WeightBounds: table.Bounds{-2, 0.125}}
		}), 1)
		for range 400 {
			s.push(1, 0, 1, 0, -50)
		}
		if w := s.pull(1); !slices.Equal(w, []float32{0.5, 0.125, 0.125}) {
			t.Errorf("%q: up to %v", rule, w)
		}
		for range 4000 {
			s.push(1, 0, 1, 0, 50)
		}
		if w := s.pull(1); !slices.Equal(w, []float32{-0.25, -2, -2}) {
			t.Errorf("%q: down to %v", rule, w)
		}
	}
}

// TestGates: what each gate lets through, and that it drops the gradient of the
// push that opens it.
func TestGates(t *testing.T) {
	for _, c := range []struct {
		admit string
		at    float64
		push  int // that admits, with 1 show and 0 clicks each
	}{{table.AdmitAll, 0, 0}, {table.AdmitCount, 3, 3}, {table.AdmitScore, 0.5, 5}, {table.AdmitCount, 0, 0}} {
		s := newStore(t, living(2, func(l *table.Lifecycle) {
			l.Admit, l.AdmitCount, l.AdmitScore = c.admit, c.at, c.at
			l.Embed = table.PartRule{Rule: table.PartNaive}
		}), 1)
		for i := 1; i <= 8; i++ {
			s.push(1, 0, 1, 0, 1)
			if got := s.counters(1).Admitted(); got != (i >= c.push) {
				t.Errorf("%s %v: admitted %v after push %d", c.admit, c.at, got, i)
			}
			want := float32(0)
			for range max(0, i-c.push) {
				want -= 0.05
			}
			if got := s.pull(1)[0]; got != want {
				t.Errorf("%s %v: weight %v after push %d, want %v", c.admit, c.at, got, i, want)
			}
		}
	}
}

// TestPullCreates: create_value_when_push.
func TestPullCreates(t *testing.T) {
	for _, onPush := range []bool{true, false} {
		s := newStore(t, living(2, func(l *table.Lifecycle) { l.CreateValueWhenPush = onPush }), 1)
		if w := s.pull(1); (len(s.ids) == 0) != onPush || (w[0] == 0) != onPush || w[1] != 0 {
			t.Errorf("create_value_when_push %v: a pull gives %v and leaves %d rows", onPush, w, len(s.ids))
		}
	}
}

// TestRefresh: batches in which rows live, lag, have ended, are not there, or come
// twice.
func TestRefresh(t *testing.T) {
	s := newStore(t, living(2, nil), 1)
	s.push(1, 0, 100, 50, 1)
	s.push(2, 0, 1, 0, 1) // ends at the first shrink
	s.push(3, 0, 1, 0, 1)
	s.happen(CutBase, Saved, Shrink)
	ids := []uint32{s.ids[1], s.ids[2], table.NoRow, s.ids[2]}
	gone, reborn := s.acc.Refresh(&s.rows, []uint64{1, 2, 9, 2}, ids, false)
	if gone != 2 || len(reborn) != 0 || !slices.Equal(ids, []uint32{s.ids[1], table.NoRow, table.NoRow, table.NoRow}) {
		t.Errorf("looked up: %d gone, %v reborn, ids %v", gone, reborn, ids)
	}
	if !s.acc.Dead(s.row(2)) || s.acc.Dead(s.row(1)) {
		t.Error("a row that was looked at is not found dead again, or a living one is")
	}
	ids = []uint32{s.ids[2], s.ids[2], s.ids[3]}
	if gone, reborn = s.acc.Refresh(&s.rows, []uint64{2, 2, 3}, ids, true); gone != 2 || !slices.Equal(reborn, []uint32{0, 2}) || slices.Contains(ids, table.NoRow) {
		t.Errorf("to be made: %d gone, %v reborn, ids %v", gone, reborn, ids)
	}
	if c := s.counters(2); c.Show != 0 || c.Seq != 3 {
		t.Errorf("born again with %+v", c)
	}
	if got := s.acc.Graves().Keys(); len(got) != 0 {
		t.Errorf("tombstones %v of rows that no model had", got)
	}
	if s.acc.Bury(7, nil); !slices.Equal(s.acc.Graves().Keys(), []uint64{7}) {
		t.Error("a row that was not looked at has no tombstone")
	}
	if n := testing.AllocsPerRun(100, func() { s.acc.Refresh(&s.rows, []uint64{2, 2, 3}, ids, true) }); n != 0 {
		t.Errorf("%v allocations a refresh", n)
	}
}

// TestUpdateRefusesWhatLags: whoever forgets Refresh is told, and nothing is
// counted twice or lost in silence.
func TestUpdateRefusesWhatLags(t *testing.T) {
	s := newStore(t, living(1, nil), 1)
	s.push(1, 0, 100, 50, 1)
	ids := []uint32{s.ids[1], table.NoRow}
	s.happen(Day)
	push := []float32{0, 1, 0, 1, 0, 1, 0, 1}
	if refused := s.acc.Update(&s.rows, ids, push); refused != 1 {
		t.Errorf("%d refused, want the row that lags and not the key that was not admitted", refused)
	}
	if c := s.counters(1); c.Show != 100 {
		t.Errorf("%+v", c)
	}
}

// TestScores against sorting.
func TestScores(t *testing.T) {
	r := seedtest.Rand(t)
	for range 200 {
		parts, all := [2]Scores{}, []float64{}
		for range r.IntN(300) {
			x := []float64{0, 0.1, 0.2, math.Exp(r.NormFloat64() * 20), float64(r.IntN(50))}[r.IntN(5)]
			parts[r.IntN(2)].Add(x)
			all = append(all, x)
		}
		sum := Scores{}
		sum.Merge(&parts[0])
		sum.Merge(&parts[1])
		sort.Float64s(all)
		capacity := uint64(r.IntN(300))
		below := sum.Keep(capacity)
		left := all[sort.SearchFloat64s(all, below):]
		if sum.Rows() != uint64(len(all)) || uint64(len(left)) > capacity {
			t.Fatalf("%d of %d rows left, capacity %d", len(left), len(all), capacity)
		}
		// What was cut off was needless only if it all lies in one step.
		if gone := all[:len(all)-len(left)]; len(gone) > 0 {
			best := gone[len(gone)-1]
			step := len(gone) - sort.SearchFloat64s(gone, best*(1-1.0/32))
			if len(left)+step <= int(capacity) {
				t.Fatalf("%d rows left and %d cut off at %v that had room, capacity %d", len(left), step, best, capacity)
			}
		}
	}
}

func TestTakeSlots(t *testing.T) {
	spec := living(1, nil)
	srcs := [][]float32{{5, 1, 0, 9, 6, 1, 0, 9}, nil, {7, 1, 1, 9}}
	index := [][]int32{{0, 1, -1}, nil, {-1, 0, -1}}
	out := []float32{5, 1, 0, 9, 13, 2, 1, 18, 0, 0, 0, 0}
	TakeSlots(&spec, out, srcs, index)
	if want := []float32{5, 1, 0, 9, 7, 2, 1, 18, 0, 0, 0, 0}; !slices.Equal(out, want) {
		t.Errorf("%v, want %v", out, want)
	}
	spec.Lifecycle = nil
	same := slices.Clone(out)
	out[0] = 1
	same[0] = 1
	if TakeSlots(&spec, out, srcs, index); !slices.Equal(out, same) {
		t.Error("a push without slots was changed")
	}
}

// TestWithoutLifecycle: all that a storage calls does nothing.
func TestWithoutLifecycle(t *testing.T) {
	s := newStore(t, spec(3, table.Init{}, table.AdaGrad), 1)
	row := s.lookup([]uint64{1}, true)
	if gone, reborn := s.acc.Refresh(&s.rows, []uint64{1}, row, true); gone+len(reborn) != 0 {
		t.Error("rows went")
	}
	same, isAlive := s.acc.Settled(s.row(1), nil)
	if !isAlive || &same[0] != &s.row(1)[0] || s.acc.Dead(same) || s.acc.Check(same) != nil || !s.acc.Settle(same) ||
		!s.acc.Keep(ModeDelta, same) || !s.acc.Admit(2) || s.acc.Score(same) != 0 || s.acc.History() != nil || s.acc.Graves() != nil || s.acc.HasLifecycle() {
		t.Error("a table without a lifecycle has one")
	}
	s.acc.Bury(1, same)
	s.acc.Bury(1, nil)
	if c := s.acc.Counters(same); !c.Admitted() || !c.Extended() {
		t.Errorf("%+v", c)
	}
	if err := s.acc.Happen(Event{Kind: Shrink}); err == nil || !strings.Contains(err.Error(), "no lifecycle") {
		t.Errorf("an event: %v", err)
	}
	if err := s.acc.Restore(Memo{}); err != nil || s.acc.Memo().String() != "" {
		t.Errorf("nothing to restore: %v", err)
	}
	if err := s.acc.Restore(Memo{History: "s"}); err == nil {
		t.Error("a history was restored")
	}
	v, err := NewView(s.acc.spec, "")
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float32, 3)
	if v.Weights(same, dst); !v.Serves(same) || !equalBits(dst, same[:3]) {
		t.Errorf("weights %v of %v", dst, same)
	}
	if _, err := NewView(s.acc.spec, "s"); err == nil {
		t.Error("a view with a history")
	}
}

func TestModes(t *testing.T) {
	for m := Mode(-1); m < 8; m++ {
		if want := slices.Contains([]Mode{0, 1, 2, 3, 5}, m); (m.Validate() == nil) != want {
			t.Errorf("mode %d: %v", m, m.Validate())
		}
	}
	s := newStore(t, living(2, func(l *table.Lifecycle) { l.DeleteThreshold = 0 }), 1)
	s.push(1, 0, 1, 0, 0)
	for _, m := range []Mode{ModeAll, ModeDaily, ModeBatch} {
		if !s.acc.Keep(m, s.now(1)) {
			t.Errorf("mode %d leaves a row out", m)
		}
	}
}

func TestMemoMerge(t *testing.T) {
	a, b := Memo{"sd", []uint64{3, 9}}, Memo{"sd", []uint64{1, 9}}
	if err := a.Merge(b); err != nil || a.String() != "sd;1,3,9" {
		t.Errorf("%v, %v", a, err)
	}
	if err := a.Merge(Memo{"s", nil}); err == nil || !strings.Contains(err.Error(), "another through") {
		t.Errorf("other histories: %v", err)
	}
}

// BenchmarkRefresh: rows that are up to date, and rows that a day has passed.
func BenchmarkRefresh(b *testing.B) {
	s := newStore(b, living(16, func(l *table.Lifecycle) { l.DeleteThreshold = 0; l.DeleteAfterUnseenDays = 1 << 40 }), 1)
	keys, ids := make([]uint64, storeRows), make([]uint32, storeRows)
	for i := range keys {
		keys[i] = uint64(i)
		s.push(keys[i], 0, 100, 3, 0)
	}
	copy(ids, s.lookup(keys, false))
	b.Run("upToDate", func(b *testing.B) {
		for b.Loop() {
			s.acc.Refresh(&s.rows, keys, ids, false)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/row")
	})
	b.Run("aDayLater", func(b *testing.B) {
		for b.Loop() {
			if s.acc.History().Len() > MaxEvents-2 {
				b.Fatal("too many days")
			}
			s.happen(Day, Shrink)
			s.acc.Refresh(&s.rows, keys, ids, false)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/row")
	})
}
