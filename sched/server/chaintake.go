package server

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/tiers"
	"psrt/tiers/table"
)

// taking is the op that is being done to the lane's state. Rows are looked up when
// they are changed, and pinned no longer: between two ops none is.
type taking struct {
	noting  bool
	born    map[*tableState][]uint64 // keys of rows that this op has made, where noting
	partial bool                     // rows have not all come: others are left out, but for these
	make    map[uint32]map[uint64]bool
}

// Take does the next op; see chain.State.
func (c *chained) Take(op *chain.Op, note bool) []byte {
	c.taking = taking{noting: note}
	c.take(op)
	return c.takeNote()
}

// TakePart does an op as far as its rows have come.
func (c *chained) TakePart(op *chain.Op, note []byte) {
	made, err := readNote(note)
	if err != nil {
		c.fail(err)
		return
	}
	c.taking = taking{partial: true, make: made}
	c.take(op)
}

func (c *chained) take(op *chain.Op) {
	if c.failed != nil {
		c.results = append(c.results, result{seq: op.Seq, code: psmsg.CodeNoMemory, err: c.failed})
		return
	}
	c.dirty = true
	c.running = op.Merge
	at := len(c.results)
	c.results = append(c.results, result{seq: op.Seq})
	switch op.Kind {
	case chain.Push:
		c.results[at].code, c.results[at].refused = c.takePush(op)
	case chain.Order:
		c.results[at].value, c.results[at].err = c.takeOrder(op)
	case chain.Leave:
		c.l.clock.Leave(int(op.Worker))
	}
	c.l.applyReady()
	for i := at; c.failed != nil && i >= 0 && (i == at || c.results[i].merged); i-- {
		c.results[i].code, c.results[i].err = psmsg.CodeNoMemory, c.failed
	}
	c.results[at].merged = op.Merge
}

// applied notes what pushes have led to: this op's, and those of the run that it ends.
func (c *chained) applied(due []*request, version uint64, refused []int) {
	for i, r := range due {
		at := slices.IndexFunc(c.results, func(res result) bool { return res.seq == r.op })
		if at >= 0 {
			c.results[at].version, c.results[at].refused = version, refusedOf(refused, i)
		}
	}
}

// takePush counts a push. In BSP it is held until its step is whole, in the op that
// makes it so; else it is applied now, by itself.
// It returns the refused rows of a push that is held: it is answered before its step is applied.
func (c *chained) takePush(op *chain.Op) (code psmsg.Code, refused int) {
	l := c.l
	r, err := c.decode(&op.Header, op.Body)
	if err != nil { // others may have done it: the head has read it before it was ordered
		c.fail(fmt.Errorf("server: group %d: a replica cannot read a push: %w", c.cfg.Group, err))
		return psmsg.CodeNoMemory, 0
	}
	w := r.s.worker
	if !l.clock.MayPush(w, r.Clock) {
		return psmsg.CodeClock, 0
	}
	l.stats.pushes++
	l.parts.count(r)
	switch {
	case l.notePush(r):
		l.leaveOut(r)
	default:
		if l.syncOf(r).mode.BSP() {
			refused = c.badOf(r)
			l.refusals.note(r, refused)
		}
		c.hold(r)
	}
	if r.Flags&psmsg.FlagTick != 0 {
		if err := l.clock.Tick(w, r.Clock); err != nil {
			c.fail(err)
		}
	}
	return psmsg.CodeOK, refused
}

// badOf counts the rows, or blocks of the dense vector, of a push that are not finite.
func (c *chained) badOf(r *request) int {
	if r.Kind == psmsg.KindPush {
		return badRows(c.l.tables[r.Table].spec.PushFloats())(r)
	}
	return c.l.dense.badBlocks(r)
}

func (c *chained) hold(r *request) {
	if r.Kind == psmsg.KindPush {
		t := c.l.tables[r.Table]
		t.held = append(t.held, r)
		return
	}
	c.l.dense.held = append(c.l.dense.held, r)
}

// takeWithin bounds how long an op waits for disks.
const takeWithin = time.Minute

// letRead has the pulls read that must not see the next step: what an op leads to is
// done with the op.
func (c *chained) letRead() bool {
	if err := c.l.settleReads(takeWithin); err != nil {
		c.fail(err)
		return false
	}
	return true
}

// resolve finds the rows of pushes that are due, and makes those that are to be made.
func (c *chained) resolve(t *tableState, due []*request) bool {
	var err error
	for i := 0; i < len(due) && err == nil && t.bearsLate() && c.l.retains(t); i++ {
		r := due[i]
		if r.rows, _, err = c.look(t, r.keys, false); err == nil {
			r.birth.keys = missing(nil, r) // before any is made, see retainRows
		}
	}
	for i := 0; i < len(due) && err == nil; i++ {
		err = c.find(t, due[i])
	}
	if err == nil {
		return true
	}
	for _, r := range due {
		c.l.giveBack(t, r.rows)
		r.rows = nil
	}
	c.fail(fmt.Errorf("server: group %d: a replica cannot do a push to table %q: %w", c.cfg.Group, t.spec.Name, err))
	return false
}

// find gives a push its rows, those that it has not yet.
func (c *chained) find(t *tableState, r *request) (err error) {
	if create := !c.taking.noting && !c.taking.partial; r.rows == nil {
		r.rows, _, err = c.look(t, r.keys, create)
		if err != nil || create {
			return err
		}
	}
	rows := r.rows
	var absent []uint64
	var at []int
	for i, row := range rows {
		if row == table.NoRow && (!c.taking.partial || c.taking.make[t.spec.ID][r.keys[i]]) {
			absent, at = append(absent, r.keys[i]), append(at, i)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	made, _, err := c.look(t, absent, true)
	if err != nil {
		c.l.giveBack(t, rows)
		r.rows = nil
		return err
	}
	for k, row := range made {
		rows[at[k]] = row
		if row != table.NoRow && c.taking.noting {
			if c.taking.born == nil {
				c.taking.born = map[*tableState][]uint64{}
			}
			c.taking.born[t] = append(c.taking.born[t], absent[k])
		}
	}
	c.l.putRows(made)
	return nil
}

// look resolves keys and waits for it: an op is done as a whole.
func (c *chained) look(t *tableState, keys []uint64, create bool) (rows []uint32, created int, err error) {
	q := &request{chained: true, s: &session{broken: true}}
	q.Kind, q.Table = psmsg.KindPush, t.spec.ID
	for end := time.Now().Add(takeWithin); ; {
		q.look = tiers.Lookup{Keys: keys, Rows: c.l.rowsBuf(len(keys)), Create: create, Owner: q, Aside: true}
		if !t.rows.Start(&q.look) {
			t.stir(c.l)
			q.finding = reading
			c.l.looking = append(c.l.looking, q)
			t.looking++
			for q.finding == reading && time.Now().Before(end) {
				if c.l.readRows(true) == 0 {
					time.Sleep(20 * time.Microsecond)
				}
			}
			if q.finding == reading { // the table has it still: this lane is done with it
				return nil, 0, errors.New("a disk has not answered for a minute")
			}
		}
		t.stir(c.l)
		rows, created, err = q.takeFound()
		if err == nil {
			return rows, created, nil
		}
		c.l.putRows(rows)
		if !errors.Is(err, tiers.ErrPinned) || len(c.l.looking) == 0 || !c.letRead() {
			return nil, 0, err
		}
	}
}
