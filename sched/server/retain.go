package server

import (
	"slices"

	"psrt/rdma/mem"
	"psrt/sched/psmsg"
	"psrt/tiers/dense"
	"psrt/tiers/table"
)

// retained is what the rows and dense values were before the newest step of bsp was
// added to them: what a pull of that step was answered with. Who goes on for a worker
// that died in the step, when some lanes had all pushes of it and others had not, pulls
// it once more. No lane goes two steps further meanwhile: that takes a push of his.
type retained struct {
	on     bool
	step   uint64
	whole  bool // nothing is missing
	tables map[uint32]*retainedRows
	plane  *dense.Plane // nil: the published one is the step's, too
	// versions are the tables' before the step, the dense vector's under denseTable. To a
	// copy they go at its beginning (rest), and on with the steps that it takes itself.
	versions map[uint32]uint64
}

// retainedRows are of one table, the rows of one push behind those of another.
type retainedRows struct {
	keys   []uint64 // those that had a row, and that got one; another one is not changed
	rows   []uint32 // scratch
	values []float32
	at     map[uint64]int // in keys; made when somebody asks
}

// retain begins with a step.
func (l *lane) retain(step uint64) {
	w := &l.was
	if !w.on {
		return
	}
	for _, t := range l.order {
		w.versions[t.spec.ID] = t.version
	}
	w.versions[denseTable] = l.dense.version
	w.step, w.whole = step, l.chain == nil || !l.chain.taking.partial
	for _, t := range w.tables {
		t.keys, t.values, t.at = t.keys[:0], t.values[:0], nil
	}
	l.letPlane()
}

// forgetPast lets go of the step: the values are about to be others than it led to.
func (l *lane) forgetPast() {
	l.letPlane()
	l.was.step, l.was.whole = 0, false
	clear(l.was.tables)
}

func (l *lane) letPlane() {
	if l.was.plane != nil {
		l.dense.vector.Release(l.was.plane)
		l.was.plane = nil
	}
}

// retains says whether rows of a table are noted before they are changed.
func (l *lane) retains(t *tableState) bool { return l.was.on && l.was.whole && t.sync.mode.BSP() }

// retainRows notes rows that are about to be changed.
func (l *lane) retainRows(t *tableState, due []*request) {
	w := &l.was
	if !l.retains(t) {
		return
	}
	to := w.tables[t.spec.ID]
	if to == nil {
		to = &retainedRows{}
		w.tables[t.spec.ID] = to
	}
	dim := t.spec.Dim
	for _, r := range due {
		if len(r.keys) != len(r.rows) { // a ticket that was taken before this was on
			w.whole = w.whole && len(r.rows) == 0
			continue
		}
		to.rows = to.rows[:0]
		unborn := r.birth.keys // in the order of r.keys; they have rows by now
		for i, row := range r.rows {
			switch {
			case len(unborn) > 0 && r.keys[i] == unborn[0]:
				unborn, row = unborn[1:], table.NoRow // which gives zeros
			case row == table.NoRow:
				continue
			}
			to.keys, to.rows = append(to.keys, r.keys[i]), append(to.rows, row)
		}
		at := len(to.values)
		to.values = slices.Grow(to.values, len(to.rows)*dim)[:at+len(to.rows)*dim]
		t.rows.Gather(to.rows, to.values[at:])
	}
}

// retainDense notes dense values that are about to be changed.
func (l *lane) retainDense() {
	if !l.was.on || l.dense.vector == nil || !l.dense.sync.mode.BSP() {
		return
	}
	l.letPlane()
	p := l.dense.vector.Published()
	if err := l.dense.vector.Hold(p); err != nil {
		l.was.whole = false
		return
	}
	l.was.plane = p
}

// asksBack says whether a pull is of the step that was added up last.
func (l *lane) asksBack(r *request) bool {
	return l.was.on && l.was.whole && r.Clock == l.was.step && r.Flags&psmsg.FlagNoClock == 0 && l.syncOf(r).mode.BSP()
}

// forgot says whether a pull is of a step that was added up, and asks back what is not
// here any more, or never was.
func (l *lane) forgot(r *request) bool {
	return l.was.on && r.Flags&psmsg.FlagNoClock == 0 && r.Clock < l.clock.Min() && l.syncOf(r).mode.BSP() && !l.asksBack(r)
}

// backRows is where the values that a pull asks back are, by row of it; nil for a pull
// of the newest ones.
func (l *lane) backRows(r *request) []int {
	t := l.was.tables[r.Table]
	if t == nil || !l.asksBack(r) {
		return nil
	}
	in := t.index()
	at := make([]int, len(r.keys))
	for i, k := range r.keys {
		at[i] = -1
		if j, ok := in[k]; ok {
			at[i] = j
		}
	}
	return at
}

// index is where each key is in keys; one that several pushed is there several times,
// with the same values.
func (t *retainedRows) index() map[uint64]int {
	if t.at == nil {
		t.at = make(map[uint64]int, len(t.keys))
		for i, k := range t.keys {
			t.at[k] = i
		}
	}
	return t.at
}

// dim is how many values a row has; there are some.
func (t *retainedRows) dim() int { return len(t.values) / len(t.keys) }

// versionFor is the version of what a pull of a table is answered with.
func (l *lane) versionFor(r *request, table uint32) uint64 {
	if was, known := l.was.versions[table]; known && l.asksBack(r) {
		return was
	}
	return l.versionOf(table)
}

// putBack writes values that were asked back over those of the rows as they are.
func (l *lane) putBack(t *tableState, at []int, out []byte) {
	if at == nil {
		return
	}
	from, to, dim := l.was.tables[t.spec.ID].values, mem.Float32s(out), t.spec.Dim
	for i, j := range at {
		if j >= 0 {
			copy(to[i*dim:(i+1)*dim], from[j*dim:])
		}
	}
}

// denseFor is the plane that answers a pull.
func (l *lane) denseFor(r *request) *dense.Plane {
	if l.was.plane != nil && l.asksBack(r) {
		return l.was.plane
	}
	return l.dense.vector.Published()
}
