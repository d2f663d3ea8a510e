package server

import (
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

// takeOver gives a worker's number to the client of a session that is about to be
// open, and reports whether another had it before. Its sequence goes on.
func (l *lane) takeOver(ses *session) (taken bool, err error) {
	w := ses.worker
	if ses.generation < l.generation[w] {
		return false, &psmsg.TakenOverError{Worker: w}
	}
	l.generation[w] = ses.generation
	if ses.generation == 0 || l.client[w] == 0 || l.client[w] == ses.client {
		return false, nil
	}
	l.client[w] = ses.client
	return true, nil
}

// freeze keeps steps from being added up until the session that took a worker over
// has sent its first push: until then it pulls the step in which the process before
// it died, whose updates other lanes may lack. Those before that step, which goOn
// tells, are free, so that of several such sessions one can always go on.
func (l *lane) freeze(s *session) {
	if l.cfg.Staleness == 0 && !s.freezes {
		s.freezes, s.freezesFrom = true, 0
		l.frozen++
	}
}

// thaw ends what freeze began.
func (l *lane) thaw(s *session) {
	if s.freezes {
		s.freezes = false
		l.frozen--
		l.thawed = true
	}
}

// goOn is the step at which those go on that have taken workers over.
func (s *Server) goOn(sessions []*session, req psmsg.GoOnRequest) error {
	for i, ses := range sessions {
		l := s.lanes[i]
		if err := l.do(commandTimeout, func() {
			ses.freezesFrom = req.From
			l.thawed = true
		}); err != nil {
			return err
		}
	}
	return nil
}

// mayAdd says whether no session keeps a step from being added up.
func (l *lane) mayAdd(step uint64) bool {
	if l.frozen == 0 {
		return true
	}
	for _, s := range l.current {
		if s != nil && s.freezes && step >= s.freezesFrom {
			return false
		}
	}
	return true
}

// overtakes says whether a pull's step is beyond one that is whole and not added up.
func (l *lane) overtakes(r *request) bool {
	if l.frozen == 0 || l.cfg.Staleness != 0 || r.Flags&psmsg.FlagNoClock != 0 {
		return false
	}
	step, ok := l.wholeStep()
	return ok && r.Clock > step
}

// standing is how far a worker has come here.
func (l *lane) standing(worker int) psmsg.Standing {
	st := psmsg.Standing{Last: l.lastSeq[worker], At: l.clock.At(worker)}
	if l.chain != nil {
		st.Last = l.chain.m.Client(uint32(worker)).Last
	}
	if l.cfg.Staleness == 0 {
		var ok bool
		if st.Applied, ok = l.wholeStep(); !ok {
			st.Applied = l.clock.Min()
		}
	}
	return st
}
