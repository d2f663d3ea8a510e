package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psrt/sched/clock"
	"psrt/sched/psmsg"
)

// knowsQuorum says whether every member of the chain knows the orders of psmsg.QuorumSince: one
// that does not would come to another clock.
func (c *chained) knowsQuorum() bool { return c.speaks.Load() >= psmsg.QuorumSince }

// expects is a request to enter as far as it counts here: where the workers are fixed all of
// them are waited for anyway, and in asp nobody is.
func (s *Server) expects(r psmsg.EnterRequest) psmsg.EnterRequest {
	if !s.vacated || r.Workers < 0 || s.cfg.apart() < 0 || s.cfg.Chain != nil && !s.lanes[0].chain.knowsQuorum() {
		r.Workers = 0
	}
	return r
}

// refuseEnter tells a worker why it does not take part.
func (s *Server) refuseEnter(e *clock.QuorumError) psmsg.EnterReply {
	rep := psmsg.EnterReply{Refused: psmsg.EnterDiffers, Quorum: e.Quorum}
	if e.Worker >= e.Workers {
		rep.Refused = psmsg.EnterFull
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range min(e.Workers, s.cfg.Workers) {
		switch {
		case s.away[w] != nil:
			rep.Away = append(rep.Away, w)
		case s.connected(w) && !s.left[w]:
			rep.Here = append(rep.Here, w)
		}
	}
	return rep
}

// boundRejoin bounds the wait for expected workers by ReconnectFor where they were there before the server was started
// again: one may have left. It ends the bound of an earlier wait, so that the workers of a new job are not affected.
func (s *Server) boundRejoin(back bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rejoin != nil {
		s.rejoin.Stop()
		s.rejoin = nil
	}
	if !back || s.closed {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(s.cfg.ReconnectFor, func() {
		s.mu.Lock()
		current := s.rejoin == t
		s.mu.Unlock()
		if !current {
			return
		}
		_ = s.each(func(l *lane) error { // fails only when the server has ended
			l.clock.GiveUpExpected()
			l.settle()
			return nil
		})
	})
	s.rejoin = t
}

// finish has a worker take no more steps. It keeps its number, and barriers wait for it.
func (s *Server) finish(worker int, r psmsg.FinishRequest) error {
	if c := s.cfg.Chain; c != nil {
		if !s.lanes[0].chain.knowsQuorum() {
			return fmt.Errorf("%s: not all servers of its chain know that a worker can finish its steps (protocol %d); take them to this release first", s.cfg.name(), psmsg.QuorumSince)
		}
		_, err := s.lanes[0].chain.order(context.Background(), commandTimeout, order{Finish: &orderFinish{worker, r.Step}})
		return err
	}
	return s.each(func(l *lane) error {
		l.clock.Finish(worker, r.Step)
		l.release(worker)
		l.settle()
		return nil
	})
}

// pushed is how far the pushes of a worker count.
func (s *Server) pushed(worker int) (psmsg.PushedReply, error) {
	rep := psmsg.PushedReply{Last: make([]uint64, len(s.lanes))}
	err := s.each(func(l *lane) error {
		rep.Last[l.index] = l.lastSeq[worker]
		if l.chain != nil {
			rep.Last[l.index] = l.chain.m.Client(uint32(worker)).Last
		}
		return nil
	})
	return rep, err
}

// barrierSettled is how long a worker has waited in a barrier when it is taken to stay: its
// end of a step may be on its way.
const barrierSettled = 500 * time.Millisecond

// blocked names the workers that a request of worker waits for. Where one of them waits in
// a barrier, which worker does not reach, neither can go on: that barrier ends if r.Detect. The clock
// of any lane does: a worker ends its steps at all.
func (s *Server) blocked(worker int, r psmsg.BlockedRequest) (rep psmsg.BlockedReply, err error) {
	l := s.lanes[0]
	err = l.do(commandTimeout, func() { rep = l.blocks(worker, &r) })
	if err != nil {
		return rep, err
	}
	if r.Detect {
		rep.Barrier = s.barrier.stuck(rep.By, psmsg.BarrierStuck{Worker: worker, Step: rep.Step})
	}
	return rep, nil
}

func (l *lane) blocks(worker int, r *psmsg.BlockedRequest) (rep psmsg.BlockedReply) {
	rep.Step, rep.Quorum = r.Step, l.clock.Quorum()
	switch {
	case r.Pull:
		bound := l.boundOf(r.Table)
		if bound < 0 || r.Step <= uint64(bound) {
			return rep
		}
		rep.Step = r.Step - uint64(bound) - 1
	case l.chain != nil || !l.holdsSteps(): // the end of a step is acknowledged when it is committed, or at once
		return rep
	}
	rep.By = slices.DeleteFunc(l.clock.Missing(rep.Step), func(w int) bool { return w == worker })
	for _, w := range l.clock.Expected() {
		if slices.Contains(rep.By, w) {
			rep.Expected = append(rep.Expected, w)
		}
	}
	return rep
}

// boundOf is by how many steps reads of a table may be stale now, negative: nothing bounds it.
func (l *lane) boundOf(id uint32) int {
	if id == denseTable {
		return l.dense.sync.bound()
	}
	if t := l.tables[id]; t != nil {
		return t.sync.bound()
	}
	return Async
}

// stuck ends the barrier for those of the workers that wait there, and names them.
func (b *barrier) stuck(workers []int, why psmsg.BarrierStuck) (inside []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range workers {
		in := b.inside[w]
		if in == nil || time.Since(in.since) < barrierSettled {
			continue
		}
		inside = append(inside, w)
		in.stuck = &why
		close(in.ends)
		delete(b.inside, w) // it may come again
	}
	return inside
}
