package rowstest

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma/mem"
	"psrt/tiers"
	"psrt/tiers/table"
	"psrt/tiers/tierstest"
)

// Config says what a storage may do in a walk.
type Config struct {
	Steps int
	Batch int // keys of a lookup at most
	// MayFail says that an error of a lookup, a sweep or a cut is an injected one.
	MayFail func(err error) bool
}

// Run walks a storage of every spec at random beside the reference: lookups
// that overlap, updates, loads, deletions, sweeps, cuts, announcements.
func Run(t *testing.T, cfg Config, open func(t *testing.T, r *rand.Rand, spec table.Spec, seed uint64) tiers.Rows) {
	for _, spec := range tierstest.Specs() {
		t.Run(spec.Name, func(t *testing.T) {
			r := seedtest.Rand(t)
			seed := r.Uint64()
			ref, err := tierstest.NewReference(spec, seed)
			if err != nil {
				t.Fatal(err)
			}
			w := &walk{t: t, r: r, cfg: cfg, spec: spec, tab: open(t, r, spec, seed), ref: ref}
			w.forget()
			for step := range cfg.Steps {
				w.step()
				if step%50 == 49 {
					w.compare()
				}
				if t.Failed() {
					t.Fatalf("at step %d", step)
				}
			}
			w.compare()
		})
	}
}

type walk struct {
	t    *testing.T
	r    *rand.Rand
	cfg  Config
	spec table.Spec
	tab  tiers.Rows
	ref  *tierstest.Reference

	out   []*tiers.Lookup // under way
	held  []*tiers.Lookup // done, rows pinned
	batch uint64

	sweep *sweepModel
	cut   *cutModel
	dirty map[uint64]bool // changed since the last cut
	gone  map[uint64]bool // deleted since then
}

func (w *walk) forget() {
	w.dirty, w.gone, w.sweep, w.cut = map[uint64]bool{}, map[uint64]bool{}, nil, nil
}

func (w *walk) keys() []uint64 {
	out := make([]uint64, w.r.IntN(w.cfg.Batch+1))
	for i := range out {
		switch w.r.IntN(10) {
		case 0:
			out[i] = []uint64{0, ^uint64(0), 1, 1 << 63}[w.r.IntN(4)]
		case 1, 2:
			out[i] = w.r.Uint64N(10) // hot, and twice in a batch
		default:
			out[i] = w.r.Uint64N(600) << 30
		}
	}
	return out
}

func (w *walk) step() {
	switch n := w.r.IntN(100); {
	case n < 30:
		w.start()
	case n < 55:
		w.poll()
	case n < 70:
		w.apply()
	case n < 78:
		w.release()
	case n < 82:
		w.load()
	case n < 86:
		w.delete()
	case n < 90:
		w.sweepOn()
	case n < 95:
		w.cutOn()
	case n < 99:
		w.announce()
	default:
		if w.r.IntN(3) == 0 {
			w.reset()
		}
	}
}

// start begins a lookup. What it must answer is told when it ends.
func (w *walk) start() {
	if len(w.out)+len(w.held) >= 3 {
		w.release()
		return
	}
	l := &tiers.Lookup{Keys: w.keys(), Create: w.r.IntN(3) > 0}
	l.Rows = make([]uint32, len(l.Keys))
	if w.r.IntN(2) == 0 {
		l.Into = make([]float32, len(l.Keys)*w.spec.Dim)
	}
	q := &asked{keys: slices.Clone(l.Keys), there: make([]bool, len(l.Keys))}
	for i, key := range q.keys {
		q.there[i] = w.ref.Rows[key] != nil
	}
	l.Owner = q
	before := len(w.ref.Rows)
	if w.tab.Start(l) {
		q.alone = len(w.out) == 0
		w.done(l)
		if made := len(w.ref.Rows) - before; l.Created != made && q.alone && l.Err == nil {
			w.t.Errorf("%d rows made, want %d", l.Created, made)
		}
		return
	}
	for i := range l.Keys { // not to be looked at any more
		l.Keys[i] = w.r.Uint64()
	}
	w.out = append(w.out, l)
}

// asked is a lookup's keys, whether they had a row when it began, and whether
// there was no other under way.
type asked struct {
	keys  []uint64
	there []bool
	alone bool
}

func keysOf(l *tiers.Lookup) []uint64 { return l.Owner.(*asked).keys }

func (w *walk) poll() {
	for _, l := range w.tab.Poll() {
		i := slices.Index(w.out, l)
		if i < 0 {
			w.t.Fatalf("poll gave a lookup that was not under way: %+v", l)
		}
		w.out = slices.Delete(w.out, i, i+1)
		w.done(l)
	}
}

// settle waits for the lookups under way.
func (w *walk) settle() {
	began := time.Now()
	for n := 0; len(w.out) > 0; n++ {
		if n%1000 == 999 && time.Since(began) > 2*time.Minute {
			w.t.Fatalf("%d lookups do not end", len(w.out))
		}
		if n%100 == 99 { // they may wait for rows that are held
			w.releaseAll()
		}
		w.poll()
	}
}

// done holds an answer to the reference.
func (w *walk) done(l *tiers.Lookup) {
	q := l.Owner.(*asked)
	keys := q.keys
	if l.Err != nil {
		if !errors.Is(l.Err, tiers.ErrPinned) && (w.cfg.MayFail == nil || !w.cfg.MayFail(l.Err)) {
			w.t.Fatalf("lookup of %d keys: %v", len(keys), l.Err)
		}
		w.learn(keys)
		return
	}
	dst := make([]float32, len(keys)*w.spec.Dim)
	w.tab.Gather(l.Rows, dst)
	if l.Gathered && !bytes.Equal(mem.Bytes(l.Into), mem.Bytes(dst)) { // bits: what is learnt may be no number
		w.t.Errorf("rows that are gathered as they are found are %v, they are %v", l.Into, dst)
	}
	places := map[uint64]uint32{}
	for i, key := range keys {
		if at, ok := places[key]; ok && at != l.Rows[i] {
			w.t.Fatalf("key %d is at rows %d and %d", key, at, l.Rows[i])
		}
		places[key] = l.Rows[i]
		if l.Rows[i] != table.NoRow && w.ref.Rows[key] == nil { // made by this lookup, or by one under way
			if !l.Create && q.alone {
				w.t.Errorf("key %d was made by a lookup that may not", key)
			}
			w.ref.Create(key)
			w.dirty[key] = true
		}
		if k, ok := w.tab.(interface {
			KeyAt(uint32) (uint64, string)
		}); ok && l.Rows[i] != table.NoRow {
			if got, state := k.KeyAt(l.Rows[i]); got != key {
				w.t.Fatalf("the row of key %d is that of key %d (%s)", key, got, state)
			} else if testing.Verbose() {
				w.t.Logf("key %d at %d: %s", key, l.Rows[i], state)
			}
		}
		want := make([]float32, w.spec.Dim)
		switch {
		case l.Rows[i] != table.NoRow:
			want = w.ref.Rows[key].Exact[:w.spec.Dim]
		case l.Create || q.there[i]:
			w.t.Errorf("key %d has no row", key)
		}
		w.compareFloats(key, dst[i*w.spec.Dim:(i+1)*w.spec.Dim], want)
	}
	w.held = append(w.held, l)
	if w.sweep != nil {
		for _, key := range keys {
			delete(w.sweep.must, key)
		}
	}
}

// learn takes note of rows that a failed lookup may have made.
func (w *walk) learn(keys []uint64) {
	if w.tab.Len() == len(w.ref.Rows) {
		return
	}
	there := map[uint64]bool{}
	for {
		err := w.tab.Range(func(key uint64, _ []float32) bool {
			there[key] = true
			return true
		})
		if err == nil {
			break
		}
		if w.cfg.MayFail == nil || !w.cfg.MayFail(err) {
			w.t.Fatal(err)
		}
	}
	for _, key := range keys {
		if there[key] && w.ref.Create(key) {
			w.dirty[key] = true
		}
	}
}

func (w *walk) compareFloats(key uint64, got, want []float32) {
	if len(got) != len(want) {
		w.t.Fatalf("key %d: %d floats, want %d", key, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			w.t.Errorf("key %d: float %d is %v, want %v", key, i, got[i], want[i])
			return
		}
	}
}

func (w *walk) release() {
	if len(w.held) > 0 {
		i := w.r.IntN(len(w.held))
		w.tab.Release(w.held[i].Rows)
		w.held = slices.Delete(w.held, i, i+1)
	}
}

func (w *walk) releaseAll() {
	for len(w.held) > 0 {
		w.release()
	}
}

// apply updates the distinct rows of a held lookup.
func (w *walk) apply() {
	if len(w.held) == 0 {
		return
	}
	l := w.held[w.r.IntN(len(w.held))]
	if w.r.IntN(2) == 0 {
		w.tab.Renumber(l.Rows)
	}
	var keys []uint64
	var rows []uint32
	for i, key := range keysOf(l) {
		if l.Rows[i] != table.NoRow && !slices.Contains(keys, key) {
			keys, rows = append(keys, key), append(rows, l.Rows[i])
		}
	}
	if w.r.IntN(5) == 0 {
		w.edit(keys, rows)
		return
	}
	rows = append(rows, table.NoRow)
	grads := make([]float32, len(rows)*w.spec.Dim)
	for i := range grads {
		grads[i] = float32(w.r.NormFloat64())
		if w.r.IntN(500) == 0 {
			grads[i] = []float32{float32(math.NaN()), float32(math.Inf(1))}[w.r.IntN(2)]
		}
	}
	refused := 1
	for i, key := range keys {
		w.dirty[key] = true
		if w.ref.Apply(key, grads[i*w.spec.Dim:(i+1)*w.spec.Dim]) {
			refused++
		}
	}
	if got := w.tab.Apply(rows, grads); got != refused {
		w.t.Errorf("%d rows refused, want %d", got, refused)
	}
}

// edit changes the last word of rows.
func (w *walk) edit(keys []uint64, rows []uint32) {
	w.tab.Edit(rows, func(i int, key uint64, row []float32) {
		if key != keys[i] {
			w.t.Errorf("edit gave key %d for the row of key %d", key, keys[i])
		}
		w.compareFloats(key, row, w.ref.Rows[keys[i]].Exact)
		row[0] += 0.25 // a weight: of some states NaN is made
		w.ref.Load(key, row)
		w.dirty[key] = true
	})
}

// load sets rows, one or some, of which a key may come twice.
func (w *walk) load() {
	w.settle()
	keys, width := w.keys(), w.spec.RowFloats()
	if w.r.IntN(2) == 0 {
		keys = keys[:min(len(keys), 1)]
	}
	rows := make([]float32, len(keys)*width)
	for i := range rows {
		rows[i] = w.r.Float32() // state must not be negative
	}
	for begin := time.Now(); ; {
		var err error
		if len(keys) == 1 {
			err = w.tab.Load(keys[0], rows)
		} else {
			err = w.tab.LoadRows(keys, rows)
		}
		switch {
		case err == nil:
			for i, key := range keys {
				w.ref.Load(key, rows[i*width:(i+1)*width])
				w.dirty[key] = true
			}
			return
		case !errors.Is(err, tiers.ErrPinned) || time.Since(begin) > time.Minute:
			w.t.Fatalf("load of %d rows: %v", len(keys), err)
		}
		w.releaseAll() // some are set: the others must follow
	}
}

// delete forgets keys; those held stay.
func (w *walk) delete() {
	w.settle()
	keys := w.keys()
	for len(keys) > 0 {
		n, err := w.tab.Delete(keys[:1])
		switch {
		case errors.Is(err, tiers.ErrBusy):
			w.poll()
			continue
		case errors.Is(err, tiers.ErrPinned):
		case err != nil:
			w.t.Fatal(err)
		default:
			want := 0
			if w.ref.Rows[keys[0]] != nil && !w.isHeld(keys[0]) {
				want = 1
				w.removed(keys[0])
			}
			if n != want {
				w.t.Errorf("delete of key %d gave %d, want %d", keys[0], n, want)
			}
		}
		keys = keys[1:]
	}
}

func (w *walk) removed(key uint64) {
	delete(w.ref.Rows, key)
	delete(w.dirty, key)
	w.gone[key] = true
	if w.sweep != nil {
		delete(w.sweep.must, key)
	}
}

func (w *walk) isHeld(key uint64) bool {
	for _, l := range w.held {
		if i := slices.Index(keysOf(l), key); i >= 0 && l.Rows[i] != table.NoRow {
			return true
		}
	}
	return false
}

func (w *walk) announce() {
	switch w.r.IntN(3) {
	case 0:
		w.tab.Passed(w.batch - min(w.batch, uint64(w.r.IntN(8))))
	default:
		w.tab.Announce(w.batch, w.keys())
		w.batch += 1 + w.r.Uint64N(2)
	}
}

func (w *walk) reset() {
	w.settle()
	w.releaseAll()
	if w.cut != nil {
		return
	}
	if err := w.tab.Reset(); err != nil {
		w.t.Fatal(err)
	}
	w.ref.Rows = map[uint64]*tierstest.Row{}
	w.forget()
	if w.tab.Len() != 0 {
		w.t.Errorf("%d rows after reset", w.tab.Len())
	}
}

// compare holds every row and the digest to the reference.
func (w *walk) compare() {
	w.settle()
	seen := map[uint64]bool{}
	err := w.tab.Range(func(key uint64, row []float32) bool {
		want := w.ref.Rows[key]
		if want == nil || seen[key] {
			w.t.Fatalf("range gave key %d: there %v, twice %v", key, want != nil, seen[key])
		}
		seen[key] = true
		w.compareFloats(key, row, want.Exact)
		return true
	})
	if err != nil {
		if w.cfg.MayFail != nil && w.cfg.MayFail(err) {
			return
		}
		w.t.Fatal(err)
	}
	if len(seen) != len(w.ref.Rows) || w.tab.Len() != len(w.ref.Rows) {
		w.t.Fatalf("range gave %d rows, there are %d, want %d", len(seen), w.tab.Len(), len(w.ref.Rows))
	}
	got, err := w.tab.Digest()
	if err != nil && (w.cfg.MayFail == nil || !w.cfg.MayFail(err)) {
		w.t.Fatal(err)
	}
	if err == nil && got != w.ref.Digest() {
		w.t.Errorf("digest %v, want %v", got, w.ref.Digest())
	}
}
