package server

import (
	"slices"

	"psrt/sched/clock"
	"psrt/sched/psmsg"
)

// supersede lets a process of a newer generation have the worker's number, and
// refuses one of an older. With mu.
func (s *Server) supersede(worker, generation int) (newer bool, err error) {
	switch g := s.generation[worker]; {
	case generation < g:
		return false, &psmsg.TakenOverError{Worker: worker}
	case generation == g:
		return false, nil
	}
	s.generation[worker] = generation
	for c, w := range s.conns {
		if w == worker {
			go c.Control.Close() // not the endpoints: see hangUp
		}
	}
	return true, nil
}

// hold keeps a lane of bsp from adding steps up for a worker's sake, from a step on.
type hold struct {
	on    bool
	taken bool // another process has taken the worker over, and pushed nothing yet
	from  uint64
}

// takeOver gives a worker's number to the client of a session that is about to be
// open. Where another had it before, its sequence goes on.
func (l *lane) takeOver(ses *session) error {
	w := ses.worker
	if ses.generation < l.generation[w] {
		return &psmsg.TakenOverError{Worker: w}
	}
	l.generation[w] = ses.generation
	if ses.generation > 0 && l.client[w] != 0 && l.client[w] != ses.client {
		l.client[w] = ses.client
		l.hold(w)
		l.pauses[w].taken = l.pauses[w].on
	}
	return nil
}

// hold begins when a worker's connection breaks, and lasts until it is back, or else
// until the process that took it over has sent its first push: that process pulls the
// step in which the one before it died, whose updates other lanes may lack. Steps
// before that one, which goOn tells, are free, so that of several such workers one can
// always go on. A replica does not pause: it adds up where the order says so, and has
// what it replaced (retained).
func (l *lane) hold(worker int) {
	if l.chain != nil || !l.holdsSteps() || l.clock.At(worker) == clock.None {
		return
	}
	if !l.pauses[worker].on {
		l.pauses[worker] = hold{on: true}
		l.held++
	}
}

// release ends a hold.
func (l *lane) release(worker int) {
	if l.pauses[worker].on {
		l.pauses[worker] = hold{}
		l.held--
		l.released = true
	}
}

// goOn is the step at which those go on that have taken a worker over.
func (s *Server) goOn(sessions []*session, req psmsg.GoOnRequest) error {
	for i, ses := range sessions {
		l := s.lanes[i]
		if err := l.do(commandTimeout, func() {
			l.pauses[ses.worker].from = req.From
			l.released = true
		}); err != nil {
			return err
		}
	}
	return nil
}

// mayAdd says whether no hold keeps a step from being added up.
func (l *lane) mayAdd(step uint64) bool {
	return l.held == 0 || !slices.ContainsFunc(l.pauses, func(h hold) bool { return h.on && step >= h.from })
}

// overtakes says whether a pull's step is beyond one that is whole and not added up.
func (l *lane) overtakes(r *request) bool {
	if l.held == 0 || r.Flags&psmsg.FlagNoClock != 0 || !l.syncOf(r).mode.BSP() {
		return false
	}
	step, ok := l.wholeStep()
	return ok && r.Clock > step
}

// standing is how far a worker has come here.
func (l *lane) standing(worker int) psmsg.Standing {
	st := psmsg.Standing{Last: l.lastSeq[worker], At: l.clock.At(worker), Parts: slices.Clone(l.parts[worker])}
	if l.chain != nil { // what the group has, whoever its head was
		st.Last = l.chain.m.Client(uint32(worker)).Last
	}
	if l.holdsSteps() {
		var ok bool
		if st.Applied, ok = l.wholeStep(); !ok {
			st.Applied = l.clock.Min()
		}
		st.Retained = l.was.on && l.was.whole && l.was.step+1 == st.Applied
	}
	return st
}
