package tiers_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/policy"
	"psrt/tiers/table"
)

// lifeWalk lets a table in memory and one on a disk, with places for few rows,
// live through the same.
type lifeWalk struct {
	t      *testing.T
	r      *rand.Rand
	spec   table.Spec
	tabs   [2]tiers.Rows // in memory, on the disk
	disk   *tiers.FakeDisk
	fail   float64 // how often the disk fails to read for a batch
	saving bool
	next   []uint64 // keys, which were announced
	turn   uint64
}

func lifeSpec(r *rand.Rand) table.Spec {
	l := table.DefaultLifecycle()
	pick := func(v ...float64) float64 { return v[r.IntN(len(v))] }
	l.ShowClickDecayRate, l.DeleteThreshold = pick(0.98, 0.6, 1), pick(0, 0.8)
	l.DeleteAfterUnseenDays, l.DeltaKeepDays = r.IntN(6), r.IntN(5)
	l.EmbedxThreshold, l.CreateValueWhenPush = pick(0, 2), r.IntN(2) == 0
	l.BaseThreshold, l.DeltaThreshold = pick(0, 1.5), pick(0, 1)
	l.Admit = []string{table.AdmitAll, table.AdmitCount, table.AdmitScore, table.AdmitProbability}[r.IntN(4)]
	l.AdmitProbability = 0.6
	l.Embedx.Rule = []string{"", table.PartAdaGrad, table.PartSharedAdam}[r.IntN(3)]
	return table.Spec{Name: "life", ID: 9, Dim: 1 + r.IntN(20), Optimizer: table.Optimizer{Kind: table.AdaGrad}, Lifecycle: &l}
}

// TestLifeInEveryTier: defects 2 to 6, 11: rows age, decay, are saved for serving
// and go the same way wherever they lie, and nothing is lost by moving.
func TestLifeInEveryTier(t *testing.T) {
	rounds, reads := 12, 0
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := seedtest.Rand(t)
			spec, seed := lifeSpec(r), r.Uint64()
			m, err := tiers.NewMemory(spec, seed, tiers.MemoryConfig{Node: -1, Tracked: true})
			if err != nil {
				t.Fatal(err)
			}
			d := tiers.NewFakeDisk(r, spec)
			d.Busy, d.Moves, d.ReadDepth = 0.05, r.IntN(3), 1+r.IntN(40)
			c := tiers.Config{Node: -1, BatchRows: 48, Policy: []string{policy.NameBelady, policy.NameS3FIFO, policy.NameLRU}[round%3], MaxBytes: 1}
			c.MaxBytes = tiers.Least(spec, c)*5/4 + 30000
			onDisk, err := tiers.NewTieredOn(d, spec, seed, c)
			if err != nil {
				t.Fatal(err)
			}
			w := &lifeWalk{t: t, r: r, spec: spec, disk: d, tabs: [2]tiers.Rows{close1(t, m), close1(t, onDisk)}}
			for step := range 400 {
				w.step()
				if step%40 == 39 {
					w.compare()
				}
				if t.Failed() {
					t.Fatalf("step %d of %s", step, spec.Effective())
				}
			}
			reads += d.Reads
		})
	}
	if reads == 0 {
		t.Error("the disk was never read: the test tests nothing")
	}
}

func (w *lifeWalk) step() {
	switch n := w.r.IntN(100); {
	case n < 50:
		w.batch(true)
	case n < 55:
		w.edit()
	case n < 70:
		w.batch(false)
	case n < 77:
		w.happen(accessor.Day)
	case n < 84:
		w.happen(accessor.Shrink)
	case n < 90 && !w.saving:
		w.happen([]accessor.EventKind{accessor.CutDelta, accessor.CutBase}[w.r.IntN(2)])
		w.saving = true
		w.compareSave()
	case n < 90:
		w.happen([]accessor.EventKind{accessor.Saved, accessor.Failed}[w.r.IntN(2)])
		w.saving = false
	case n < 95:
		w.sweep()
	case n < 97:
		w.cutMeanwhile()
	default:
		w.cut(w.r.IntN(3) > 0)
	}
}

// cutMeanwhile: a cut has all rows as they were, while things happen to them, they
// are pushed to, and sweeps drop those that ended.
func (w *lifeWalk) cutMeanwhile() {
	var before, got [2]map[uint64][]float32
	for i, tab := range w.tabs {
		before[i], got[i] = w.all(tab), map[uint64][]float32{}
		if err := tab.Cut(false); err != nil {
			w.t.Fatal(err)
		}
	}
	for n, more := 0, true; more; n++ {
		more = false
		for i, tab := range w.tabs {
			left, err := tab.Next(1+w.r.IntN(20), func(key uint64, row []float32, deleted bool) error {
				if _, twice := got[i][key]; twice || deleted {
					w.t.Errorf("table %d: key %d comes twice, or deleted: %v", i, key, deleted)
				}
				got[i][key] = slices.Clone(row)
				return nil
			})
			if err != nil && !errors.Is(err, tiers.ErrFake) || n > 1e5 {
				w.t.Fatalf("a cut does not end: %v", err)
			}
			more = more || left || err != nil
			tab.Poll()
		}
		switch w.r.IntN(6) {
		case 0:
			w.happen([]accessor.EventKind{accessor.Shrink, accessor.Day}[w.r.IntN(2)])
		case 1:
			w.batch(w.r.IntN(2) == 0)
		case 2:
			if n < 20 {
				w.sweep()
			}
		}
	}
	for i, tab := range w.tabs {
		tab.CutDone(false)
		if !maps.EqualFunc(before[i], got[i], sameBits) {
			w.t.Errorf("table %d: a cut of %d rows has %d, or others", i, len(before[i]), len(got[i]))
		}
	}
}

func (w *lifeWalk) happen(k accessor.EventKind) {
	for _, tab := range w.tabs {
		if err := tab.Happen(accessor.Event{Kind: k}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// look looks keys up, and waits.
func (w *lifeWalk) look(tab tiers.Rows, keys []uint64, create bool) []uint32 {
	for range 1000 {
		l := &tiers.Lookup{Keys: slices.Clone(keys), Rows: make([]uint32, len(keys)), Create: create}
		done := tab.Start(l)
		for n := 0; !done; n++ {
			if n > 1e6 {
				w.t.Fatal("a lookup does not end")
			}
			done = slices.Contains(tab.Poll(), l)
		}
		if errors.Is(l.Err, tiers.ErrPinned) { // of reads ahead and walks under way
			tab.Poll()
			continue
		}
		if errors.Is(l.Err, tiers.ErrFake) {
			continue
		}
		if l.Err != nil {
			w.t.Fatal(l.Err)
		}
		return l.Rows
	}
	w.t.Fatal("there is never room for a lookup")
	return nil
}

func (w *lifeWalk) keys() (keys []uint64) {
	for range 1 + w.r.IntN(24) {
		if k := w.r.Uint64N(900); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// edit changes a word of rows, sometimes after something has happened to them that they have not taken in.
func (w *lifeWalk) edit() {
	keys := w.keys()
	var rows [2][]uint32
	for i, tab := range w.tabs {
		rows[i] = w.look(tab, keys, false)
	}
	if w.r.IntN(3) == 0 {
		w.happen(accessor.Day)
	}
	for i, tab := range w.tabs {
		tab.Edit(rows[i], func(_ int, key uint64, row []float32) { row[0] += float32(key%7) - 3 })
		tab.Release(rows[i])
	}
}

// batch pulls, and pushes if it is to.
func (w *lifeWalk) batch(isPush bool) {
	w.disk.FailReads = w.fail
	defer func() { w.disk.FailReads = 0 }()
	keys := w.next
	if w.next = w.keys(); keys == nil {
		keys = w.keys()
	}
	w.turn++
	for _, tab := range w.tabs {
		tab.Passed(w.turn)
		tab.Announce(w.turn+1, w.next)
	}
	width := w.spec.PushFloats()
	push := make([]float32, len(keys)*width)
	for i := range push {
		push[i] = float32(w.r.NormFloat64())
	}
	for i := range keys {
		show := w.r.IntN(6)
		copy(push[i*width:], []float32{float32(w.r.IntN(30)), float32(show), float32(w.r.IntN(show + 1))})
	}
	if w.r.IntN(10) == 0 {
		push[w.r.IntN(len(push))] = float32(math.NaN())
	}
	var pulled [2][]float32
	var refused [2]int
	between := accessor.EventKind(0)
	if isPush && w.r.IntN(6) == 0 && !slices.ContainsFunc(push, func(x float32) bool { return x != x }) { // a refused push leaves what the lookup made
		between = []accessor.EventKind{accessor.Shrink, accessor.Day}[w.r.IntN(2)]
	}
	for i, tab := range w.tabs {
		rows := w.look(tab, keys, isPush || w.spec.CreatesOnPull())
		if i == 0 && between != 0 { // the other table's lookup comes after it
			w.happen(between)
		}
		if isPush {
			refused[i] = tab.Apply(rows, push)
		}
		pulled[i] = make([]float32, len(keys)*w.spec.Dim)
		tab.Gather(rows, pulled[i])
		tab.Release(rows)
	}
	if !sameBits(pulled[0], pulled[1]) || refused[0] != refused[1] {
		w.t.Errorf("push %v of %v: in memory %v, %d refused; on disk %v, %d refused", isPush, keys, pulled[0], refused[0], pulled[1], refused[1])
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// sweep sweeps both to the end: then they have the same rows and graves.
func (w *lifeWalk) sweep() {
	defer w.still()()
	for _, tab := range w.tabs {
		for n, more := 0, true; more; n++ {
			var err error
			if _, more, err = tab.Sweep(1+w.r.IntN(50), nil); err != nil || n > 1e6 {
				w.t.Fatalf("a sweep does not end: %v", err)
			}
			tab.Poll()
		}
	}
	a, b := w.tabs[0], w.tabs[1]
	if a.Len() != b.Len() || a.Len() != len(w.all(a)) {
		w.t.Errorf("%d rows in memory, %d on disk after a sweep, %d are alive", a.Len(), b.Len(), len(w.all(a)))
	}
	if x, y := a.Accessor().Memo().String(), b.Accessor().Memo().String(); x != y {
		w.t.Errorf("memo %q in memory, %q on disk", x, y)
	}
}

func (w *lifeWalk) all(tab tiers.Rows) map[uint64][]float32 {
	defer w.still()()
	out := map[uint64][]float32{}
	if err := tab.Range(func(key uint64, row []float32) bool {
		out[key] = slices.Clone(row)
		return true
	}); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// still keeps the disk from moving rows: where it moves all few rows that it has
// again and again, a walk over them never ends.
func (w *lifeWalk) still() (goOn func()) {
	moves := w.disk.Moves
	w.disk.Moves = 0
	return func() { w.disk.Moves = moves }
}

func (w *lifeWalk) compare() {
	defer w.still()()
	a, b := w.all(w.tabs[0]), w.all(w.tabs[1])
	if !maps.EqualFunc(a, b, sameBits) {
		w.t.Errorf("%d rows in memory, %d on disk, and not the same", len(a), len(b))
	}
	x, err := w.tabs[0].Digest()
	if err != nil {
		w.t.Fatal(err)
	}
	y, err := w.tabs[1].Digest()
	if err != nil || x != y {
		w.t.Errorf("digest %v in memory, %v on disk, %v", x, y, err)
	}
}

// compareSave: a save for serving that begins has the same rows.
func (w *lifeWalk) compareSave() {
	var in [2]map[uint64]float64
	for i, tab := range w.tabs {
		in[i] = map[uint64]float64{}
		for key, row := range w.all(tab) {
			if c := tab.Accessor().Counters(row); c.InSave() {
				in[i][key] = c.Pending
			}
		}
	}
	if !maps.Equal(in[0], in[1]) {
		w.t.Errorf("the save has %v in memory, %v on disk", in[0], in[1])
	}
}

// cut takes a base, then deltas of what goes on, and holds what a reader of them
// would have to the table.
func (w *lifeWalk) cut(isCommitted bool) {
	var copies [2]map[uint64][]float32
	for i, tab := range w.tabs {
		copies[i] = map[uint64][]float32{}
		w.take(tab, false, copies[i])
		tab.CutDone(isCommitted)
	}
	for range w.r.IntN(4) {
		w.batch(true)
	}
	w.happen(accessor.Shrink)
	w.batch(true)
	if w.r.IntN(2) == 0 {
		w.sweep()
	}
	if !isCommitted {
		return
	}
	for i, tab := range w.tabs {
		w.take(tab, true, copies[i])
		tab.CutDone(true)
		scratch := make([]float32, w.spec.RowFloats())
		for key, row := range copies[i] {
			now, isAlive := tab.Accessor().Settled(row, scratch)
			if !isAlive {
				delete(copies[i], key)
				continue
			}
			copies[i][key] = slices.Clone(now)
		}
		if all := w.all(tab); !maps.EqualFunc(copies[i], all, sameBits) {
			w.t.Errorf("table %d: base and delta give %d rows, there are %d, or others", i, len(copies[i]), len(all))
		}
	}
}

func (w *lifeWalk) take(tab tiers.Rows, isDelta bool, into map[uint64][]float32) {
	defer w.still()()
	if err := tab.Cut(isDelta); err != nil {
		w.t.Fatal(err)
	}
	for n, more := 0, true; more; n++ {
		var err error
		more, err = tab.Next(1+w.r.IntN(30), func(key uint64, row []float32, deleted bool) error {
			if deleted && !isDelta {
				w.t.Errorf("a base deletes key %d", key)
			}
			if deleted {
				delete(into, key)
			} else {
				into[key] = slices.Clone(row)
			}
			return nil
		})
		if err != nil || n > 1e6 {
			w.t.Fatalf("a cut does not end: %v", err)
		}
		tab.Poll()
	}
}
