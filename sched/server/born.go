package server

import (
	"slices"

	"psrt/sched/psmsg"
	"psrt/tiers"
	"psrt/tiers/table"
)

// Where only pushes make rows, a pull of a row that is not there gives zeros. In BSP it
// must do so for all of a step, whoever of its workers has pushed already: a push is
// looked up when it comes, so that its rows are read and pinned, and makes those that
// are missing when its step is applied (bear). Replicas do the like in chained.resolve.

// birth is of a held push that has come with keys of which there are no rows.
type birth struct {
	version uint64   // of the table when its rows were sought
	under   bool     // a lookup of missing rows is under way
	done    bool     // what was to be made is
	keys    []uint64 // of rows that its step makes: before it there were none
	err     error    // why they could not be
}

// bearsLate says whether rows of a table are made when a step is applied.
func (t *tableState) bearsLate() bool { return t.sync.mode.BSP() && !t.spec.CreatesOnPull() }

// bear makes the rows that a step's pushes miss. It returns false while a disk, or memory
// that others have pinned, has to be waited for: the lane comes here again.
func (l *lane) bear(step uint64) bool {
	if l.chain != nil {
		return true
	}
	whole := true
	// What another step has made since is there: all of that is found before any is made,
	// because of what this step makes the past is zeros (retainRows).
	for _, create := range [2]bool{false, true} {
		for _, t := range l.order {
			if !t.bearsLate() {
				continue
			}
			for _, r := range l.heldOf(t, step) {
				whole = l.seekUnborn(t, r, create) && whole
			}
		}
		if !whole {
			return false
		}
	}
	for _, t := range l.order {
		t.held = slices.DeleteFunc(t.held, func(r *request) bool {
			if r.Clock != step || r.birth.err == nil {
				return false
			}
			l.refuseUnborn(t, r)
			return true
		})
	}
	return true
}

// heldOf are a table's held pushes of a step, by worker, whichever came first.
func (l *lane) heldOf(t *tableState, step uint64) []*request {
	held := l.merge.unborn[:0]
	for _, r := range t.held {
		if r.Clock == step {
			held = append(held, r)
		}
	}
	slices.SortStableFunc(held, func(a, b *request) int { return a.s.worker - b.s.worker })
	l.merge.unborn = held
	return held
}

// seekUnborn looks for the rows that a held push misses, or makes them; false: it has to
// wait for them.
func (l *lane) seekUnborn(t *tableState, r *request, create bool) bool {
	b := &r.birth
	switch {
	case b.under:
		return false
	case b.done || b.err != nil || len(r.keys) != len(r.rows):
		return true
	case !create && (b.version == t.version || !l.was.on):
		return true
	}
	b.keys = missing(b.keys[:0], r)
	if b.version = t.version; len(b.keys) == 0 {
		b.done = true
		return true
	}
	b.under = true
	r.look = tiers.Lookup{Keys: b.keys, Rows: l.rowsBuf(len(b.keys)), Create: create, Owner: r, Aside: true}
	if !l.start(r) {
		return false
	}
	l.takeUnborn(r)
	return true
}

// missing appends the keys of a push that have no rows.
func missing(keys []uint64, r *request) []uint64 {
	for i, row := range r.rows {
		if row == table.NoRow {
			keys = append(keys, r.keys[i])
		}
	}
	return keys
}

// takeUnborn gives a held push the rows that were found for it.
func (l *lane) takeUnborn(r *request) {
	b, create := &r.birth, r.look.Create
	rows, _, err := r.takeFound()
	b.under, b.done, b.err = false, create && err == nil, err
	if err == nil {
		next := 0
		for i, row := range r.rows {
			if row == table.NoRow {
				r.rows[i] = rows[next]
				next++
			}
		}
	}
	l.putRows(rows)
}

// refuseUnborn answers a push whose rows could not be made. It was counted, and its step
// goes on without it.
func (l *lane) refuseUnborn(t *tableState, r *request) {
	l.giveBack(t, r.rows)
	r.rows = nil
	if l.deviceLost(t) {
		r.s.broken = true // nothing of it has an answer
		return
	}
	l.reply(r, l.failed(t, r.birth.err), 0, t.version, 0)
}

// unbornYet says whether a pull must wait until a step is whole and its rows are made.
func (l *lane) unbornYet(r *request) bool {
	if !l.bearing || r.Flags&psmsg.FlagNoClock != 0 || !l.syncOf(r).mode.BSP() {
		return false
	}
	step, ok := l.wholeStep()
	return ok && r.Clock >= step
}
