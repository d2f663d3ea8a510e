package server

import (
	"slices"

	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/sched/audit"
	"psrt/sched/clock"
	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
)

// enqueuePush notes a push's place in its session's order. Requests arrive in
// the order sent, but one that was refused for a stale ticket comes again
// behind later ones: its sequence puts it back in its place.
func (s *session) enqueuePush(r *request) {
	i := len(s.order)
	for i > 0 && s.order[i-1].Seq > r.Seq {
		i--
	}
	s.order = slices.Insert(s.order, i, r)
}

func (s *session) removePush(r *request) {
	if i := slices.Index(s.order, r); i >= 0 {
		s.order = slices.Delete(s.order, i, i+1)
	}
}

// takePushes takes the session's pushes as far as they are complete and
// without a gap in the sequence.
func (l *lane) takePushes(s *session) {
	if l.chain != nil {
		l.chain.arrived = true // they are taken together, when all that has come was looked at
		return
	}
	for len(s.order) > 0 && !s.broken {
		r := s.order[0]
		if !r.here() || r.Seq > l.lastSeq[s.worker]+1 || !l.resolved(r) {
			break
		}
		s.removePush(r)
		l.take(r)
	}
	l.seekAhead(s)
}

// seeks says whether a push's rows must be found by its keys. One that was taken
// before has no use for them.
func (l *lane) seeks(r *request) bool {
	return r.Kind == psmsg.KindPush && r.Flags&psmsg.FlagTicket == 0 && r.Seq > l.lastSeq[r.s.worker]
}

// resolved says whether a push can be taken, and sees to it that it will be.
func (l *lane) resolved(r *request) bool {
	switch {
	case r.finding == reading:
		return false
	case !l.seeks(r):
		return true
	case r.finding == notSought:
		return l.find(r, !l.tables[r.Table].bearsLate())
	}
	return r.finding == found
}

// seekAhead looks for the rows of pushes behind one that waits for a disk, so
// that they need not wait one after the other. None overtakes one that found no
// memory.
func (l *lane) seekAhead(s *session) {
	if s.broken {
		return
	}
	for i, r := range s.order {
		if !r.here() || r.Seq > l.lastSeq[s.worker]+1+uint64(i) || r.finding == waiting {
			return
		}
		if r.finding == notSought && l.seeks(r) {
			l.find(r, !l.tables[r.Table].bearsLate())
		}
	}
}

// take accepts one push: from here on it is counted exactly once.
func (l *lane) take(r *request) {
	w := r.s.worker
	if r.Seq <= l.lastSeq[w] {
		l.stats.duplicates++
		l.forget(r)
		code, rows := l.refusals.answer(r)
		l.reply(r, code, 0, 0, rows)
		return
	}
	if r.Kind == psmsg.KindPush && !l.resolveRows(r) {
		return
	}
	if !l.clock.MayPush(w, r.Clock) {
		if r.Kind == psmsg.KindPush {
			l.giveBack(l.tables[r.Table], r.rows)
			r.rows = nil
		}
		l.reply(r, psmsg.CodeClock, 0, 0, 0)
		return
	}
	l.lastSeq[w] = r.Seq
	l.stats.pushes++
	l.parts.count(r)
	switch {
	case l.notePush(r):
		l.leaveOut(r)
	case r.Kind == psmsg.KindPush:
		t := l.tables[r.Table]
		t.held = append(t.held, r)
	default:
		l.dense.held = append(l.dense.held, r)
	}
	if r.Flags&psmsg.FlagTick != 0 {
		l.clock.Tick(w, r.Clock) // MayPush has checked the order
	}
	l.makeRoom(r.s)
}

// leaveOut answers a push that needs not be applied.
func (l *lane) leaveOut(r *request) {
	version := uint64(0)
	if r.Kind == psmsg.KindPush {
		t := l.tables[r.Table]
		l.giveBack(t, r.rows)
		r.rows, version = nil, t.version
	}
	l.noteTaken(tableOf(r), l.versionOf(tableOf(r)), audit.LeftOut, r)
	l.acknowledge([]*request{r}, version)
}

// resolveRows takes the rows of a push's ticket, or what was found by its keys.
func (l *lane) resolveRows(r *request) bool {
	t := l.tables[r.Table]
	if r.Flags&psmsg.FlagTicket != 0 {
		rows, keys, ok := r.s.takeTicket(r.Ticket, r.Table)
		if ok {
			rows, ok = l.chosenOf(t, r, rows)
		}
		if !ok || len(rows) != int(r.Rows) {
			l.giveBack(t, rows)
			l.stats.stale++
			l.reply(r, psmsg.CodeStaleTicket, 0, t.version, 0)
			return false
		}
		r.rows, r.keys = rows, keys
		return true
	}
	rows, _, err := r.takeFound()
	if err != nil {
		l.putRows(rows)
		if l.deviceLost(t) {
			r.s.broken = true // nothing of it has an answer
			return false
		}
		l.reply(r, l.failed(t, err), 0, t.version, 0)
		return false
	}
	r.rows = rows
	return true
}

// applyReady applies held pushes: of tables in BSP those of whole steps, one step
// after the other (a worker's leaving can complete several at once); of others all
// that this poll batch brought, merged per row.
func (l *lane) applyReady() {
	if l.chain != nil && l.chain.running {
		return
	}
	defer l.afterSteps()
	l.applyAll(false, func(*request) bool { return true })
	if !l.cfg.holds() {
		return
	}
	for {
		step, ok := l.nextWholeStep()
		l.bearing = false
		if !ok || l.readsBefore(step) && (l.chain == nil || !l.chain.letRead()) {
			return
		}
		l.beforeStep(step)
		if l.bearing = !l.bear(step); l.bearing {
			return
		}
		l.retain(step)
		l.spills.ending = true
		l.applyAll(true, func(r *request) bool { return r.Clock == step })
		l.endSpills(step)
	}
}

// nextWholeStep is the lowest step with held pushes that every worker has
// finished.
func (l *lane) nextWholeStep() (step uint64, ok bool) {
	step, ok = l.wholeStep()
	return step, ok && l.mayAdd(step)
}

func (l *lane) wholeStep() (step uint64, ok bool) {
	look := func(held []*request) {
		for _, r := range held {
			if r.Clock < l.clock.Min() && (!ok || r.Clock < step) {
				step, ok = r.Clock, true
			}
		}
	}
	for _, t := range l.order {
		if t.sync.mode.BSP() {
			look(t.held)
		}
	}
	if l.dense.sync.mode.BSP() {
		look(l.dense.held)
	}
	return step, ok
}

// applyAll applies the held pushes that are due, of the tables in BSP or of the others.
func (l *lane) applyAll(bsp bool, isDue func(*request) bool) {
	for _, t := range l.order {
		if t.sync.mode.BSP() != bsp {
			continue
		}
		if due := l.due(&t.held, bsp, isDue); len(due) > 0 {
			l.applySparse(t, due)
		}
	}
	if l.dense.sync.mode.BSP() != bsp {
		return
	}
	if due := l.due(&l.dense.held, bsp, isDue); len(due) > 0 {
		l.applyDense(due)
	}
}

// due takes the requests that are due out of held, in BSP ordered by worker.
func (l *lane) due(held *[]*request, bsp bool, isDue func(*request) bool) []*request {
	due, keep := l.merge.due[:0], (*held)[:0]
	for _, r := range *held {
		if isDue(r) {
			due = append(due, r)
		} else {
			keep = append(keep, r)
		}
	}
	clear((*held)[len(keep):])
	*held = keep
	if bsp {
		slices.SortStableFunc(due, func(a, b *request) int { return a.s.worker - b.s.worker })
	}
	l.merge.due = due
	return due
}

// mergeScratch is reused by every merge.
type mergeScratch struct {
	due    []*request
	srcs   [][]float32
	idx    [][]int32
	part   [][]int32 // of idx, for one group
	cat    []uint32  // row ids of all sources behind one another
	occ    []int32
	uniq   []uint32
	out    []float32
	none   []int32
	merges []kernels.Merge
	times  []uint8
	again  again
	unborn []*request
	dedup  probe.DedupScratch
}

// plan lays the due requests out as sources 0..n-1 and returns the order of
// their additions. In BSP source w is worker w's (or absent) and the order is
// the top of the reduction tree; further pushes of one worker in one step are
// added to its first beforehand. Otherwise sources are added as they came.
func (l *lane) plan(due []*request, mode clock.Mode) (sources []*request, merges []kernels.Merge) {
	m := l.merge.merges[:0]
	if !mode.BSP() {
		for i := 1; i < len(due); i++ {
			m = append(m, kernels.Merge{Dst: 0, Src: int32(i)})
		}
		l.merge.merges = m
		return due, m
	}
	sources = make([]*request, l.cfg.Workers, l.cfg.Workers+len(due))
	for _, r := range due {
		w := r.s.worker
		if sources[w] == nil {
			sources[w] = r
			continue
		}
		m = append(m, kernels.Merge{Dst: int32(w), Src: int32(len(sources))})
		sources = append(sources, r)
	}
	for _, t := range l.cfg.Merges {
		m = append(m, kernels.Merge{Dst: t.Dst, Src: t.Src})
	}
	l.merge.merges = m
	return sources, m
}

func (l *lane) applySparse(t *tableState, due []*request) {
	refused := 0
	if l.chain != nil && !l.chain.resolve(t, due) {
		return
	}
	l.retainRows(t, due)
	switch {
	case len(due) == 1:
		refused = l.applyRows(t, due[0].rows, due[0].grads, due[0].times)
	case !t.spec.Optimizer.Adds():
		for _, r := range due { // in BSP by worker, so that the last is always the same
			refused += l.applyRows(t, r.rows, r.grads, r.times)
		}
	default:
		refused = l.applyMerged(t, due)
		l.stats.merged += uint64(len(due) - 1)
	}
	if l.deviceLost(t) {
		for _, r := range due {
			l.giveBack(t, r.rows)
			r.rows = nil
		}
		return
	}
	l.stats.refused += uint64(refused)
	t.version += uint64(len(due))
	for _, r := range due {
		l.giveBack(t, r.rows)
		r.rows = nil
	}
	l.noteTaken(t.spec.ID, t.version, 0, due...)
	l.acknowledge(due, t.version, blame(due, refused, badRows(t.spec.PushFloats()))...)
}

// groupFloats is how much is applied between two looks at what has landed: 64
// KiB, as of dense values.
const groupFloats = 16 << 10

// groups cuts n rows of dim floats and calls f for each piece; between them the
// links are kept busy.
func (l *lane) groups(n, dim int, f func(from, to int)) {
	size := max(1, groupFloats/dim)
	for from := 0; from < n; from += size {
		if from > 0 {
			l.keepFetching()
		}
		f(from, min(n, from+size))
	}
}

// applyRows applies the gradients of one source.
func (l *lane) applyRows(t *tableState, rows []uint32, grads []float32, times []uint8) (refused int) {
	if len(l.links) == 0 { // nobody to look after
		return l.applyTimes(t, rows, grads, times)
	}
	dim := t.spec.PushFloats()
	l.groups(len(rows), dim, func(from, to int) {
		refused += l.applyTimes(t, rows[from:to], grads[from*dim:to*dim], part(times, from, to))
	})
	return refused
}

// acknowledge answers pushes; refused are the rows of each that were, none: of none.
func (l *lane) acknowledge(due []*request, version uint64, refused ...int) {
	if l.chain != nil { // who waits is told when the op is committed
		l.chain.applied(due, version, refused)
	}
	for i, r := range due {
		r.grads, r.keys, r.times = nil, nil, nil
		l.refusals.note(r, refusedOf(refused, i))
		l.reply(r, psmsg.CodeOK, 0, version, refusedOf(refused, i))
	}
}

func refusedOf(refused []int, i int) int {
	if len(refused) == 0 {
		return 0
	}
	return refused[i]
}

// blame says whose rows were refused of pushes that were added: those that are not
// finite themselves, which bad counts; where all are, and their sums were too large,
// everybody's.
func blame(due []*request, refused int, bad func(*request) int) []int {
	if refused == 0 {
		return nil
	}
	each, any := make([]int, len(due)), false
	for i, r := range due {
		each[i] = bad(r)
		any = any || each[i] > 0
	}
	if !any {
		for i := range each {
			each[i] = refused
		}
	}
	return each
}

// badRows counts the rows of a push, of width floats, that are not finite.
func badRows(width int) func(*request) int {
	return func(r *request) (n int) {
		for g := range slices.Chunk(r.grads, width) {
			if !finite(g) {
				n++
			}
		}
		return n
	}
}

func finite(v []float32) bool {
	for _, f := range v {
		if f-f != 0 { // of Inf and NaN it is NaN
			return false
		}
	}
	return true
}

// applyMerged adds the sources row by row and applies each row once, group by
// group: what is added is then still in the cache.
func (l *lane) applyMerged(t *tableState, due []*request) (refused int) {
	sources, merges := l.plan(due, t.sync.mode)
	m := &l.merge
	m.cat = m.cat[:0]
	for _, r := range sources {
		if r != nil {
			t.rows.Renumber(r.rows) // the same row has the same number
			m.cat = append(m.cat, r.rows...)
		}
	}
	if len(m.cat) == 0 {
		return 0
	}
	m.occ = grow(m.occ, len(m.cat))
	m.uniq = grow(m.uniq, len(m.cat))
	n := probe.DedupU32(&m.dedup, m.cat, m.occ, m.uniq)
	m.srcs, m.none = m.srcs[:0], grow(m.none, n)
	for i := range m.none {
		m.none[i] = -1
	}
	for len(m.idx) < len(sources) {
		m.idx = append(m.idx, nil)
	}
	at := 0
	for i, r := range sources {
		idx := grow(m.idx[i], n)
		copy(idx, m.none)
		m.idx[i] = idx
		if r == nil {
			m.srcs = append(m.srcs, nil)
			continue
		}
		for j := range r.rows {
			idx[m.occ[at+j]] = int32(j)
		}
		at += len(r.rows)
		m.srcs = append(m.srcs, r.grads)
	}
	times := m.timesOf(sources, n)
	dim := t.spec.PushFloats()
	m.out, m.part = grow(m.out, min(n*dim, max(groupFloats, dim))), grow(m.part, len(sources))
	l.groups(n, dim, func(from, to int) {
		for i := range m.part {
			m.part[i] = m.idx[i][from:to]
		}
		kernels.TreeSumRows(m.out, dim, to-from, m.srcs, m.part, merges)
		accessor.TakeSlots(&t.spec, m.out[:(to-from)*dim], m.srcs, m.part[:len(m.srcs)])
		refused += l.applyTimes(t, m.uniq[from:to], m.out[:(to-from)*dim], part(times, from, to))
	})
	return refused
}

// rescueHeld copies the gradients of a dying session's held pushes, which lie
// in its ring, its staging or its worker's memory, and lets the requests live
// on without it.
func (l *lane) rescueHeld(s *session) {
	rescue := func(held []*request) {
		for i, r := range held {
			if r.s != s {
				continue
			}
			held[i] = l.detach(r)
		}
	}
	for _, t := range l.order {
		rescue(t.held)
	}
	rescue(l.dense.held)
}

// detach copies a held push out of memory that is its session's, or its worker's, and lets
// it live on without them.
func (l *lane) detach(r *request) *request {
	s := r.s
	orphan := &request{Request: r.Request, s: &session{worker: s.worker, client: s.client, broken: true}, rows: r.rows}
	orphan.grads, orphan.keys, orphan.times = slices.Clone(r.grads), slices.Clone(r.keys), slices.Clone(r.times)
	orphan.birth, r.birth = r.birth, birth{}
	orphan.birth.under = false // what is under way ends as a lookup of nobody's
	l.stats.copied.Rescued += uint64(len(r.grads)) * 4
	r.rows, r.keys, r.grads, r.times = nil, nil, nil, nil
	return orphan
}

// grow returns s with length n, reallocating only to grow.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4+64)
	}
	return s[:n]
}
