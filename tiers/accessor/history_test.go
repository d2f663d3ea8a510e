package accessor

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/table"
)

// walk is a lazy store and a naive table that live through the same.
type walk struct {
	t       *testing.T
	r       *rand.Rand
	seed    uint64
	s       *store
	n       *naive
	serving map[uint64]float64 // what the lazy store has told a server of models
	staged  map[uint64]float64
	cut     EventKind
}

func drawLife(r *rand.Rand) func(l *table.Lifecycle) {
	return func(l *table.Lifecycle) {
		pick := func(v ...float64) float64 { return v[r.IntN(len(v))] }
		l.NonclkCoeff, l.ClickCoeff = pick(0.1, 0.3), pick(1, 2)
		l.BaseThreshold, l.DeltaThreshold = pick(0, 1.5), pick(0, 0.25, 1)
		l.ShowClickDecayRate, l.DeleteThreshold = pick(0.98, 0.7, 1), pick(0, 0.8, 2)
		l.DeleteAfterUnseenDays, l.DeltaKeepDays = r.IntN(8), r.IntN(5)
		l.EmbedxThreshold, l.ShowScale = pick(0, 2, 10), r.IntN(2) == 0
		l.CreateValueWhenPush = r.IntN(2) == 0
		l.Admit = []string{table.AdmitAll, table.AdmitCount, table.AdmitScore, table.AdmitProbability}[r.IntN(4)]
		l.AdmitCount, l.AdmitScore, l.AdmitProbability = pick(0, 3), pick(1, 4), 0.6
		l.Embed = table.PartRule{Rule: table.PartAdaGrad}
		l.Embedx = table.PartRule{Rule: table.PartStdAdaGrad, WeightBounds: table.Bounds{-1, 1}}
	}
}

// TestAgainstNaive: random histories, looked at now and then, against the table
// that is swept at every event. Counters must agree to the bit.
func TestAgainstNaive(t *testing.T) {
	r := seedtest.Rand(t)
	for round := range 60 {
		spec := living(1+r.IntN(4), drawLife(r))
		w := &walk{t: t, r: r, seed: r.Uint64(), n: newNaive(spec.Lifecycle), serving: map[uint64]float64{}}
		w.s = newStore(t, spec, w.seed)
		for step := range 300 {
			w.step()
			if step%50 == 49 {
				w.compare()
			}
			if t.Failed() {
				t.Fatalf("round %d, step %d, %s", round, step, spec.Effective())
			}
		}
	}
}

func (w *walk) step() {
	switch n := w.r.IntN(100); {
	case n < 60:
		w.push()
	case n < 65:
		w.pull()
	case n < 72:
		w.happen(Event{Kind: Day})
	case n < 80:
		w.happen(Event{Kind: Shrink})
	case n < 82:
		w.evict()
	case n < 94:
		w.save()
	case n < 97:
		w.s.sweep()
	default:
		w.restart()
	}
}

func (w *walk) happen(e Event) {
	if err := w.s.acc.Happen(e); err != nil {
		w.t.Fatal(err)
	}
	w.n.happen(e)
}

// born is the naive row that both have when key comes for the first time.
func (w *walk) born(key uint64) *naiveRow {
	row := make([]float32, w.s.acc.RowFloats())
	w.s.acc.Born(key, row)
	vector := 0.0
	if w.s.acc.spec.Dim > 1 {
		vector = float64(row[1])
	}
	return w.n.born(key, float64(row[0]), vector)
}

func (w *walk) push() {
	key, slot, show := w.r.Uint64N(50), w.r.Uint32N(9), float32(w.r.IntN(6))
	click, grad := float32(w.r.IntN(int(show)+1)), float32(w.r.NormFloat64())
	if refused := w.s.push(key, slot, show, click, grad); refused != 0 {
		w.t.Errorf("a push was refused")
	}
	row := w.n.rows[key]
	if row == nil && w.s.acc.Admit(key) {
		row = w.born(key)
	}
	if row != nil {
		w.n.push(row, slot, float64(show), float64(click), float64(grad))
	}
}

func (w *walk) pull() {
	key := w.r.Uint64N(50)
	got, row := w.s.pull(key), w.n.rows[key]
	if row == nil && w.s.acc.spec.CreatesOnPull() && w.s.acc.Admit(key) {
		row = w.born(key)
	}
	want := make([]float64, len(got))
	if row != nil && row.admitted {
		want[0] = row.w
		for i := 1; row.extended && i < len(want); i++ {
			want[i] = math.NaN() // the naive row has one weight of the vector
		}
		if row.extended && len(want) > 1 {
			want[1] = row.vector
		}
	}
	for i, x := range want {
		if !math.IsNaN(x) && math.Abs(float64(got[i])-x) > 1e-4*(1+math.Abs(x)) {
			w.t.Errorf("key %d: pulled %v, want %v, %+v", key, got, want, row)
		}
	}
}

// evict cuts the table to a capacity, by counting its scores.
func (w *walk) evict() {
	w.s.sweep()
	var scores Scores
	for key := range w.s.ids {
		if row := w.s.now(key); row != nil {
			scores.Add(w.s.acc.Score(row))
		}
	}
	capacity := uint64(w.r.IntN(40))
	if int(scores.Rows()) != len(w.n.rows) {
		w.t.Errorf("%d rows counted after a sweep, want %d", scores.Rows(), len(w.n.rows))
	}
	if below := scores.Keep(capacity); below > 0 {
		w.happen(Event{Kind: Evict, Below: below})
		if uint64(len(w.n.rows)) > capacity {
			w.t.Errorf("%d rows after an eviction to %d", len(w.n.rows), capacity)
		}
	}
}

// save begins a save or ends the one that has begun, and tells the server of
// models as whoever writes files would.
func (w *walk) save() {
	if w.cut == 0 {
		w.s.sweep()
		w.cut = []EventKind{CutDelta, CutBase}[w.r.IntN(2)]
		w.happen(Event{Kind: w.cut})
		w.staged = map[uint64]float64{}
		for key, c := range w.s.saved() {
			w.staged[key] = c.Show
		}
		return
	}
	end := []EventKind{Saved, Saved, Failed}[w.r.IntN(3)]
	if end == Saved {
		if w.cut == CutBase {
			w.serving = map[uint64]float64{}
		}
		for _, key := range w.s.acc.Graves().Cut() {
			delete(w.serving, key)
		}
		maps.Copy(w.serving, w.staged)
	}
	w.happen(Event{Kind: end})
	w.cut = 0
	if !maps.Equal(w.serving, w.n.serving) {
		w.t.Errorf("served are %v, want %v", w.serving, w.n.serving)
	}
}

// restart writes the table down and reads it into a new one.
func (w *walk) restart() {
	memo, err := ParseMemo(w.s.acc.Memo().String())
	if err != nil {
		w.t.Fatal(err)
	}
	s := newStore(w.t, w.s.acc.spec, w.seed)
	if err := s.acc.Restore(memo); err != nil {
		w.t.Fatal(err)
	}
	for key := range w.s.ids {
		row := w.s.row(key)
		if err := s.acc.Check(row); err != nil {
			w.t.Error(err)
		}
		s.ids[key], s.free = s.free[0], s.free[1:]
		copy(s.row(key), row)
	}
	w.s = s
	if w.cut != 0 { // the file it was writing is lost
		w.happen(Event{Kind: Failed})
		w.cut = 0
	}
}

func (w *walk) compare() {
	for key := range w.s.ids {
		if w.s.now(key) != nil && w.n.rows[key] == nil {
			w.t.Errorf("key %d is alive, and should have gone", key)
		}
	}
	for key, want := range w.n.rows {
		row := w.s.now(key)
		if row == nil {
			w.t.Errorf("key %d is gone, and should be alive: %+v", key, want)
			continue
		}
		c := w.s.acc.Counters(row)
		got := fmt.Sprint(c.Show, c.Click, c.DeltaScore, c.Pending, c.UnseenDays, c.Slot, c.Admitted(), c.Extended(), c.InSave(), c.Served())
		if want := fmt.Sprint(want.show, want.click, want.delta, want.pending, want.unseen, want.slot, want.admitted, want.extended, want.inSave, want.served); got != want {
			w.t.Errorf("key %d: %s, want %s", key, got, want)
		}
		show, _ := want.bigShow.Float64()
		click, _ := want.bigClick.Float64()
		if math.Abs(c.Show-show) > 1e-12*show || math.Abs(c.Click-click) > 1e-12*click {
			w.t.Errorf("key %d: %v shows and %v clicks, exactly %v and %v", key, c.Show, c.Click, show, click)
		}
		if math.Abs(float64(row[0])-want.w) > 1e-4*(1+math.Abs(want.w)) {
			w.t.Errorf("key %d: weight %v, want %v", key, row[0], want.w)
		}
		w.compareView(key, row)
	}
}

// compareView holds the reader of stored rows to what the table gives.
func (w *walk) compareView(key uint64, now []float32) {
	v, err := NewView(w.s.acc.spec, w.s.acc.History().String())
	if err != nil {
		w.t.Fatal(err)
	}
	stored, dst := w.s.row(key), make([]float32, w.s.acc.spec.Dim)
	if got, want := v.Serves(stored), w.s.acc.Keep(ModeBase, now); got != want {
		w.t.Errorf("key %d: served %v, want %v", key, got, want)
	}
	v.Weights(stored, dst)
	if pulled := w.s.pull(key); !equalBits(dst, pulled) {
		w.t.Errorf("key %d: weights %v, a pull gives %v", key, dst, pulled)
	}
}

func TestHistoryRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"sdx": "event 'x'", "1": "", "11": "another", "k": "not begun", "1f2ksd": "",
		"e3ff0": "ends within", "e3ff000000000000g": "invalid byte", "e7ff0000000000000": "+Inf", "e3ff0000000000000s": "",
	} {
		h, err := ParseHistory(text)
		if want == "" && (err != nil || h.String() != text) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v, want an error that says %q", text, h.String(), err, want)
		}
	}
	s := newStore(t, living(2, nil), 1)
	s.push(1, 0, 1, 0, 0)
	row := s.row(1)
	for name, spoil := range map[string]func(c *Counters){
		"events":  func(c *Counters) { c.Seq = 1 },
		"flags":   func(c *Counters) { c.flags |= 16 },
		"show":    func(c *Counters) { c.Show = math.NaN() },
		"clicked": func(c *Counters) { c.Click = -1 },
		"pending": func(c *Counters) { c.Pending = math.Inf(1) },
	} {
		if err := s.acc.Check(row); err != nil {
			t.Fatal(err)
		}
		c, bad := s.acc.Counters(row), append([]float32(nil), row...)
		spoil(&c)
		c.encode(s.acc.words(bad))
		if err := s.acc.Check(bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzMemo(f *testing.F) {
	for _, seed := range []string{"", "sd1k2f", "e3ff0000000000000s;1,ff", ";", "1;0,ffffffffffffffff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMemo(text)
		if err != nil {
			return
		}
		again, err := ParseMemo(m.String())
		if err != nil || again.String() != m.String() {
			t.Fatalf("%q became %q: %v", text, m.String(), err)
		}
		h, err := ParseHistory(m.History)
		if err != nil || h.String() != strings.ToLower(m.History) {
			t.Fatalf("history %q became %q: %v", m.History, h.String(), err)
		}
	})
}
