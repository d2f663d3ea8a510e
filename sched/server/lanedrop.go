package server

import (
	"runtime"
	"slices"

	"psrt/sched/psmsg"
)

// rowsBuf takes a row-id buffer of length n from the free list.
func (l *lane) rowsBuf(n int) []uint32 {
	for i := len(l.freeRows) - 1; i >= 0; i-- {
		if b := l.freeRows[i]; cap(b) >= n {
			last := len(l.freeRows) - 1
			l.freeRows[i] = l.freeRows[last]
			l.freeRows = l.freeRows[:last]
			return b[:n]
		}
	}
	return make([]uint32, n, n+n/4+64)
}

// freeRowsMax bounds the free list: two buffers for every request there can be.
func (l *lane) putRows(b []uint32) {
	if cap(b) > 0 && len(l.freeRows) < 2*psmsg.Slots*l.cfg.Workers {
		l.freeRows = append(l.freeRows, b)
	}
}

// drop ends a session. What its worker was promised stays: gradients of held
// pushes are copied out of memory that goes away with the session.
func (l *lane) drop(s *session, cause error) {
	if l.sessions[s.id] == nil {
		return
	}
	broke := s.broken // by itself
	s.broken = true
	s.seen.end()
	if l.chain != nil {
		l.chain.forgetSession(s)
	} else {
		l.rescueHeld(s)
	}
	keep := l.parked[:0]
	for _, r := range l.parked {
		if r.s != s {
			keep = append(keep, r)
		}
	}
	l.parked = keep
	for i := range s.reqs {
		l.forget(&s.reqs[i])
	}
	l.starved = slices.DeleteFunc(l.starved, func(r *request) bool { return r.s == s })
	for i := range s.tickets {
		if k := &s.tickets[i]; k.id != 0 {
			l.giveBack(l.tables[k.table], k.rows)
			*k = ticket{}
		}
	}
	delete(l.sessions, s.id)
	if l.current[s.worker] == s {
		l.current[s.worker] = nil
		if s.generation > 0 {
			l.hold(s.worker)
		}
	}
	if l.readers[s.worker] == s {
		l.readers[s.worker] = nil
	}
	s.close()
	l.releaseAll(s)
	if s.link != nil {
		s.unanswered()
		s.link.leave(s)
	}
	if s.hangUp != nil {
		// A transport cannot always tell the worker that its endpoint is no more
		// (what would tell it may be lost too), and a worker that only waits for
		// an answer would not ask.
		s.hangUp(broke)
	}
	runtime.KeepAlive(cause)
}
