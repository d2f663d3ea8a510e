package accessor

import (
	"fmt"

	"psrt/csrc/kernels"
	"psrt/tiers/table"
)

// HasLifecycle says whether rows decay, are extended and go.
func (a *Accessor) HasLifecycle() bool { return a.life != nil }

func (a *Accessor) words(row []float32) []float32 { return row[a.life.parts.Life:] }

// Happen lets an event happen to all rows, each of which takes it in when it is
// next looked at. Rows that were Refreshed before it must be again before they are
// Updated.
func (a *Accessor) Happen(e Event) error {
	if a.life == nil {
		return fmt.Errorf("table %q has no lifecycle: nothing happens to its rows", a.spec.Name)
	}
	l := a.life
	if err := l.history.Add(e); err != nil {
		return fmt.Errorf("table %q: %w", a.spec.Name, err)
	}
	l.graves.happen(e.Kind)
	l.parts.Seq = uint32(l.history.Len())
	return nil
}

// History is what has happened, to be read; nil without a lifecycle.
func (a *Accessor) History() *History {
	if a.life == nil {
		return nil
	}
	return &a.life.history
}

// Graves are the rows gone that a served model still has; nil without a
// lifecycle.
func (a *Accessor) Graves() *Graves {
	if a.life == nil {
		return nil
	}
	return &a.life.graves
}

// Gone is how many rows have ended and were dropped or born again since the table
// was opened.
func (a *Accessor) Gone() uint64 {
	if a.life == nil {
		return 0
	}
	return a.life.gone
}

// Restore sets what had happened when the rows of a saved model were saved, and
// this lane's graves. It comes before the first row. Where a save had begun and
// not ended (History().Cutting), the caller lets Failed happen next.
func (a *Accessor) Restore(m Memo) error {
	if a.life == nil {
		if m.History == "" && len(m.Graves) == 0 {
			return nil
		}
		return fmt.Errorf("table %q has no lifecycle; the saved model's has: give it the same", a.spec.Name)
	}
	h, err := ParseHistory(m.History)
	if err != nil {
		return fmt.Errorf("table %q: %w", a.spec.Name, err)
	}
	a.life.history, a.life.graves = h, Graves{}
	for _, k := range m.Graves {
		a.life.graves.add(k)
	}
	a.life.parts.Seq = uint32(h.Len())
	return nil
}

// Admit says whether a row is made for a key that has none: a function of seed,
// table and key, the same whenever and however often it is asked.
func (a *Accessor) Admit(key uint64) bool {
	if a.life == nil || a.life.rules.Admit != table.AdmitProbability {
		return true
	}
	draw := mix(mix(a.root^admitStream) ^ mix(key+golden))
	return float64(draw>>11)*(1.0/(1<<53)) < a.life.rules.AdmitProbability
}

// admitStream sets the draws of admission apart from those of weights.
const admitStream = 0x7f4a7c159e3779b9

// Refresh brings the rows of a lookup, ids[i] of keys[i], up to date. One that has
// ended meanwhile is born again in its place with create, and else its id becomes
// table.NoRow; gone counts both, reborn are the places in ids of the first, good
// until the next call.
//
// A copy of a row elsewhere from before a Refresh stays good: it will be brought
// to the same bits when it is looked at. Not so that of a reborn row.
func (a *Accessor) Refresh(rows *kernels.Rows, keys []uint64, ids []uint32, create bool) (gone int, reborn []uint32) {
	if a.life == nil {
		return 0, nil
	}
	l := a.life
	l.reborn = l.reborn[:0]
	if len(l.lagging) < len(ids) {
		l.lagging = make([]uint32, len(ids)+len(ids)/4)
	}
	n := kernels.Lagging(&l.parts, rows, ids, l.lagging)
	for _, i := range l.lagging[:n] {
		row := rows.Row(ids[i], rows.Stride)
		if l.settle(a.words(row)) {
			continue
		}
		gone++
		if !create || !a.Admit(keys[i]) {
			ids[i] = table.NoRow
			continue
		}
		l.reborn = append(l.reborn, i)
		a.Bury(keys[i], row)
		a.Born(keys[i], row)
	}
	return gone, l.reborn
}

// Settle brings one row up to date in place; false says that it has ended.
func (a *Accessor) Settle(row []float32) (isAlive bool) {
	return a.life == nil || a.life.settle(a.words(row))
}

// Settled is Settle for a row that is not to be changed: it returns the row, or
// scratch with the row as it is now.
func (a *Accessor) Settled(row, scratch []float32) (now []float32, isAlive bool) {
	if a.life == nil || word(a.words(row), kernels.LifeSeq) == a.life.parts.Seq {
		return row, true
	}
	now = scratch[:len(row)]
	copy(now, row)
	return now, a.life.settle(a.words(now))
}

// Events is the number of events so far, 0 without a lifecycle.
func (a *Accessor) Events() uint32 {
	if a.life == nil {
		return 0
	}
	return a.life.parts.Seq
}

// SettledAt is Settled, as it was when so many events had been. The row must not
// have taken in later ones.
func (a *Accessor) SettledAt(events uint32, row, scratch []float32) (then []float32, isAlive bool) {
	if a.life == nil || word(a.words(row), kernels.LifeSeq) >= events {
		return row, true
	}
	then = scratch[:len(row)]
	copy(then, row)
	return then, a.life.settleTo(events, a.words(then))
}

// Dead says whether a row has ended and may be dropped.
func (a *Accessor) Dead(row []float32) bool {
	if a.life == nil || word(a.words(row), kernels.LifeSeq) == a.life.parts.Seq {
		return false
	}
	var words [kernels.LifeFloats]float32
	copy(words[:], a.words(row))
	return !a.life.settle(words[:])
}

// Bury notes that a row which has ended is no more, for the tombstones of the
// next delta. It comes before the row's memory is used for something else. A row
// that nobody has read, nil, may have been served.
func (a *Accessor) Bury(key uint64, row []float32) {
	if a.life == nil {
		return
	}
	a.life.gone++
	if row == nil {
		a.life.graves.add(key)
		return
	}
	var words [kernels.LifeFloats]float32
	copy(words[:], a.words(row))
	a.life.settle(words[:]) // up to its end
	if c := decodeCounters(words[:]); c.flags&(served|inSave) != 0 {
		a.life.graves.add(key)
	}
}

// Check refuses a row from outside whose words make no sense.
func (a *Accessor) Check(row []float32) error {
	if a.life == nil {
		return nil
	}
	if err := a.life.check(a.words(row)); err != nil {
		return fmt.Errorf("table %q: %w", a.spec.Name, err)
	}
	return nil
}

// Counters are what a settled row has seen; zero without a lifecycle.
func (a *Accessor) Counters(row []float32) Counters {
	if a.life == nil {
		return Counters{flags: kernels.Admitted | kernels.Extended}
	}
	return decodeCounters(a.words(row))
}

// Score is a settled row's.
func (a *Accessor) Score(row []float32) float64 {
	if a.life == nil {
		return 0
	}
	c := decodeCounters(a.words(row))
	return a.life.rules.Score(c.Show, c.Click)
}

// Keep says whether a save of a mode has a settled row.
func (a *Accessor) Keep(m Mode, row []float32) bool {
	if a.life == nil {
		return true
	}
	c := decodeCounters(a.words(row))
	return a.life.keeps(m, &c)
}
