package server

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/rdma/mem"
	"psrt/sched/psmsg"
	"psrt/tiers"
	"psrt/tiers/dram"
	"psrt/tiers/ssd"
)

// finding is how far a request has come with its rows.
type finding uint8

const (
	notSought finding = iota
	waiting           // every place in memory is pinned: it is in lane.starved
	reading           // the table has it until Poll gives it back: it is in lane.looking
	found             // or failed
)

// find resolves a request's keys and pins their rows. It returns false where
// that takes a disk, or memory that others have pinned; other requests go on
// meanwhile, and ended is called for this one.
func (l *lane) find(r *request, create bool) bool {
	r.birth.version = l.tables[r.Table].version
	r.look = tiers.Lookup{Keys: r.keys, Rows: l.rowsBuf(int(r.Rows)), Create: create, Owner: r,
		Aside: r.Kind != psmsg.KindPull || r.Flags&psmsg.FlagNoClock != 0}
	b := l.matrix(r)
	if b == nil {
		return l.start(r)
	}
	r.look.Into = mem.Float32s(b)
	done := l.start(r)
	r.look.Into = nil
	r.s.ep.Leave()
	return done
}

// matrix is the worker's memory, entered, that a pull's rows may be gathered into as
// they are found; nil where its table does not do both at once.
func (l *lane) matrix(r *request) []byte {
	if r.Kind != psmsg.KindPull || l.tables[r.Table].device == nil || !r.s.mapped || r.Flags&psmsg.FlagNoValues != 0 || l.chain != nil || r.Rows == 0 {
		return nil
	}
	b, code := r.s.enter(r.Values)
	if code != psmsg.CodeOK { // who answers says so
		return nil
	}
	return b
}

// start hands a lookup to its table. Tickets give way to it, the oldest first.
func (l *lane) start(r *request) bool {
	t := l.tables[r.Table]
	for {
		done := t.rows.Start(&r.look)
		t.stir(l)
		if !done {
			r.finding = reading
			l.looking = append(l.looking, r)
			t.looking++
			return false
		}
		if r.look.Err == nil || !errors.Is(r.look.Err, tiers.ErrPinned) {
			t.noteReads(r)
			r.finding = found
			return true
		}
		if !l.expireTicket(t) && !l.yield(t, r) {
			break
		}
	}
	if !l.hopeful(t, r) {
		r.finding = found
		return true
	}
	r.look.Err = nil
	r.finding = waiting
	l.starved = append(l.starved, r)
	return false
}

// expireTicket forgets the oldest ticket of a table. Its worker's push will be
// answered "stale ticket" and come again with keys.
func (l *lane) expireTicket(t *tableState) bool {
	var oldest *ticket
	for _, s := range l.current {
		if s == nil {
			continue
		}
		for i := range s.tickets {
			k := &s.tickets[i]
			if k.id != 0 && k.table == t.spec.ID && (oldest == nil || k.age < oldest.age) {
				oldest = k
			}
		}
	}
	if oldest == nil {
		return false
	}
	l.stats.expired++
	l.giveBack(t, oldest.rows)
	*oldest = ticket{}
	return true
}

// yield takes the rows back of pushes that were sought ahead and wait for an
// earlier one of their session, which may be r itself. They wait behind r.
func (l *lane) yield(t *tableState, r *request) (some bool) {
	for _, s := range l.current {
		if s == nil {
			continue
		}
		for _, o := range s.order {
			if o != r && o.finding == found && o.look.Err == nil && l.tables[o.Table] == t {
				l.forget(o)
				some = true
			}
		}
	}
	return some
}

// hopeful says whether pinned rows will be let go without r. Lookups under way
// become pushes and tickets. Held pushes are applied when their step is whole,
// which may wait for r itself: for a push of that step, or a pull before it.
func (l *lane) hopeful(t *tableState, r *request) bool {
	if t.looking > 0 {
		return true
	}
	at := r.Clock
	if r.Flags&psmsg.FlagNoClock != 0 {
		at = l.clock.At(r.s.worker)
	}
	return slices.ContainsFunc(t.held, func(h *request) bool {
		return !t.sync.mode.BSP() || h.Clock < at // the former are applied in this turn
	})
}

// giveBack unpins rows and takes their buffer.
func (l *lane) giveBack(t *tableState, rows []uint32) {
	if len(rows) > 0 {
		t.rows.Release(rows)
		t.stir(l) // others may have waited for their places
	}
	l.putRows(rows)
}

// forget undoes find for a request that has no use for its rows (yet).
func (l *lane) forget(r *request) {
	switch r.finding {
	case notSought, reading: // what is read comes back, to ended
		return
	case found:
		if r.look.Err == nil {
			l.giveBack(l.tables[r.Table], r.look.Rows)
			break
		}
		fallthrough
	case waiting:
		l.putRows(r.look.Rows)
	}
	r.look, r.finding = tiers.Lookup{}, notSought
}

// takeFound gives a found request's rows to the caller.
func (r *request) takeFound() (rows []uint32, created int, err error) {
	rows, created, err = r.look.Rows, r.look.Created, r.look.Err
	r.look, r.finding = tiers.Lookup{}, notSought
	return rows, created, err
}

// stir has a table polled in the lane's next turn.
func (t *tableState) stir(l *lane) {
	if !t.inMemory {
		t.woken.Store(true)
		l.disks.Store(true)
	}
}

// wake is stir for the table's own goroutines.
func (t *tableState) wake(l *lane) {
	t.woken.Store(true)
	if !l.disks.Swap(true) {
		l.mux.Wake()
	}
}

// readRows goes on with what disks have done, and returns how many lookups have
// ended. With all it asks every table, whether it has called or not.
func (l *lane) readRows(all bool) (n int) {
	if !l.disks.Swap(false) && !all {
		return 0
	}
	all = all || l.storage != nil // disks wake no single table
	if l.storage != nil && l.cfg.Device == nil {
		for _, look := range l.storage.disks.Poll() {
			r := look.Owner.(*request)
			l.ended(l.tables[r.Table], r)
			n++
		}
		return n
	}
	for _, t := range l.order {
		if t.inMemory || !t.woken.Swap(false) && !all {
			continue
		}
		for _, look := range t.rows.Poll() {
			l.ended(t, look.Owner.(*request))
			n++
		}
	}
	return n
}

// ended goes on with a request whose rows are there, or will not be.
func (l *lane) ended(t *tableState, r *request) {
	t.looking--
	t.noteReads(r)
	if i := slices.Index(l.looking, r); i >= 0 {
		l.looking = slices.Delete(l.looking, i, i+1)
	}
	r.finding = found
	if r.chained { // who waits looks for that
		return
	}
	if !r.birth.under && (l.sessions[r.s.id] != r.s || r.s.broken) { // nobody waits for it any more
		l.forget(r)
		return
	}
	// What was to become room for it is pinned again: as if it had just come.
	if errors.Is(r.look.Err, tiers.ErrPinned) && !l.start(r) {
		return
	}
	l.goOn(r)
}

// goOn is what a request waited for its rows for.
func (l *lane) goOn(r *request) {
	if r.Kind == psmsg.KindPull {
		if l.chain != nil && !l.chain.mayRead() { // not any more
			l.forget(r)
			l.parked = append(l.parked, r)
			return
		}
		l.answerPull(r)
		return
	}
	if r.birth.under {
		l.takeUnborn(r)
		l.released = true // also where nothing else brings the lane to its step
		return
	}
	l.takePushes(r.s)
}

// feed tries again those for which there was no memory, in their order; it
// returns whether one went on.
func (l *lane) feed() (some bool) {
	if len(l.starved) == 0 {
		return false
	}
	hungry := l.starved
	l.starved = nil
	for i, r := range hungry {
		if r.finding != waiting { // its session has ended
			continue
		}
		if l.start(r) {
			some = true
			l.goOn(r)
		} else if r.finding == waiting { // nor is there for those behind it
			l.starved = append(l.starved, hungry[i+1:]...)
			break
		} else {
			some = true
		}
	}
	return some
}

// readsBefore says whether a pull is still reading that must not see a step.
func (l *lane) readsBefore(step uint64) bool {
	return slices.ContainsFunc(l.looking, func(r *request) bool {
		return r.Kind == psmsg.KindPull && r.Flags&psmsg.FlagNoClock == 0 && r.Clock <= step && !r.s.broken && l.syncOf(r).mode.BSP()
	})
}

// settleReads waits until no lookup is under way: for what replaces all rows.
func (l *lane) settleReads(within time.Duration) error {
	for end := time.Now().Add(within); len(l.looking) > 0; {
		if time.Now().After(end) {
			return fmt.Errorf("server: lane %d: %d requests still wait for a disk after %v", l.global, len(l.looking), within)
		}
		if l.readRows(true) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// failed notes why a lookup failed, and is the code that says so.
func (l *lane) failed(t *tableState, err error) psmsg.Code {
	l.refusal = err
	if errors.Is(err, ssd.ErrFull) {
		return psmsg.CodeStorage // more memory would not help
	}
	if t.inMemory || errors.Is(err, tiers.ErrPinned) || errors.Is(err, tiers.ErrBudget) || errors.Is(err, dram.ErrBudget) {
		return psmsg.CodeNoMemory
	}
	return psmsg.CodeStorage
}
