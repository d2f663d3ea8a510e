package server

import (
	"fmt"

	"psrt/sched/psmsg"
)

// In BSP a push is held until its step is whole, and keeps its slot. A step of more pushes
// than a session has slots would never be over: so where slots run short a lane copies the
// session's oldest held push, acknowledges it and frees its slot. What becomes of it is in
// the answer to the push that ends the step.

// spills are the pushes that were acknowledged before their step was over.
type spills struct {
	of     map[spillKey]*spill // of the steps that are not over
	ending bool                // a step is being applied: answers to its ends wait
	late   []lateEnd
}

type spillKey struct {
	worker int
	step   uint64
}

type spill struct {
	bytes   int64 // copied
	code    psmsg.Code
	refused int // rows
}

// lateEnd is the answer to the end of a step that has spilled pushes.
type lateEnd struct {
	r               *request
	code            psmsg.Code
	ticket, version uint64
	rows            int
}

const (
	// spareSlots are those that a session has free when all it has sent is held.
	spareSlots = 2
	// maxSpill bounds the bytes that a lane copies of one worker's step: as much as one
	// slot may stage.
	maxSpill = MaxStageBytes
)

// makeRoom spills held pushes of a session until it has room to go on.
func (l *lane) makeRoom(s *session) {
	if l.chain != nil || s.broken || s.version < psmsg.QuorumSince {
		return
	}
	for {
		busy := 0
		for i := range s.reqs {
			if s.reqs[i].busy {
				busy++
			}
		}
		if busy <= psmsg.Slots-spareSlots || !l.spillOldest(s) {
			return
		}
	}
}

// spillOldest spills a session's oldest held push that does not end its step; false: there
// is none.
func (l *lane) spillOldest(s *session) bool {
	var list []*request
	at := -1
	oldest := func(held []*request) {
		for i, r := range held {
			if r.s == s && r.Flags&psmsg.FlagTick == 0 && !r.birth.under && (at < 0 || r.Seq < list[at].Seq) {
				list, at = held, i
			}
		}
	}
	for _, t := range l.order {
		if t.sync.mode.BSP() {
			oldest(t.held)
		}
	}
	if l.dense.sync.mode.BSP() {
		oldest(l.dense.held)
	}
	if at < 0 {
		return false
	}
	r := list[at]
	sp := l.spills.at(s.worker, r.Clock)
	size := int64(len(r.grads))*4 + int64(len(r.keys))*8
	if sp.bytes+size > maxSpill {
		l.refusal = fmt.Errorf("server: worker %d has pushed %d bytes in one step to more tables than it has slots, at most %d are kept: push less in a step", s.worker, sp.bytes+size, int64(maxSpill))
		sp.code = psmsg.CodeNoMemory
		r.Rows = 0 // the step goes on without it
		if r.rows != nil {
			l.giveBack(l.tables[r.Table], r.rows)
		}
		r.rows, r.keys, r.grads, r.times = nil, nil, nil, nil
		size = 0
	}
	sp.bytes += size
	orphan := l.detach(r)
	orphan.spilled = true
	list[at] = orphan
	l.reply(r, psmsg.CodeOK, 0, 0, 0) // it counts; no version has it yet
	return true
}

func (p *spills) at(worker int, step uint64) *spill {
	if p.of == nil {
		p.of = map[spillKey]*spill{}
	}
	key := spillKey{worker, step}
	if p.of[key] == nil {
		p.of[key] = &spill{}
	}
	return p.of[key]
}

// keep takes an answer that nobody waits for, or that has to wait for others.
func (p *spills) keep(r *request, code psmsg.Code, ticket, version uint64, rows int) bool {
	sp := p.of[spillKey{r.s.worker, r.Clock}]
	switch {
	case r.spilled:
		if sp != nil {
			sp.refused += rows
			if code != psmsg.CodeOK && sp.code == psmsg.CodeOK {
				sp.code = code
			}
		}
	case p.ending && sp != nil && r.Flags&psmsg.FlagTick != 0:
		p.late = append(p.late, lateEnd{r, code, ticket, version, rows})
	default:
		return false
	}
	return true
}

// endSpills answers the ends of a step, when all of it is applied. A worker that left has
// not ended it.
func (l *lane) endSpills(step uint64) {
	p := &l.spills
	p.ending = false
	for _, e := range p.late {
		if sp := p.of[spillKey{e.r.s.worker, e.r.Clock}]; sp != nil {
			e.rows += sp.refused
			if e.code == psmsg.CodeOK {
				e.code = sp.code
			}
			l.refusals.noteEnd(e.r, e.code, e.rows) // the answer may be lost
		}
		l.reply(e.r, e.code, e.ticket, e.version, e.rows)
	}
	for key := range p.of {
		if key.step <= step {
			delete(p.of, key)
		}
	}
	clear(p.late)
	p.late = p.late[:0]
}
