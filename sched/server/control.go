package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/sched/psmsg"
	"psrt/sched/usage"
	"psrt/tiers/hbm"
	"psrt/tiers/ssd"
	"psrt/tiers/table"
)

// control answers one call of a connection's control channel.
func (s *Server) control(ctx context.Context, worker int, sessions []*session, method string, body json.RawMessage) (any, error) {
	if s.cfg.Chain != nil && readsState[method] {
		if err := s.lanes[0].chain.readable(ctx); err != nil {
			return nil, err
		}
	}
	switch method {
	case psmsg.MethodOpen:
		var req psmsg.OpenRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, err
		}
		return s.open(ctx, sessions, req)
	case psmsg.MethodGoOn:
		return decoded(body, func(r psmsg.GoOnRequest) (any, error) { return struct{}{}, s.goOn(sessions, r) })
	case psmsg.MethodLeave:
		return struct{}{}, s.leave(worker)
	case psmsg.MethodCarry:
		return decoded(body, func(r psmsg.CarryRequest) (any, error) { return struct{}{}, s.carry(worker, r) })
	case psmsg.MethodDigest:
		d, err := s.Digest()
		return psmsg.DigestReply{Digest: d.String()}, err
	case psmsg.MethodStats:
		return s.Stats()
	case psmsg.MethodSave:
		var req psmsg.SaveRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, err
		}
		return s.Save(req)
	case psmsg.MethodLoad:
		var req psmsg.LoadRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, err
		}
		return struct{}{}, s.Load(req)
	case psmsg.MethodCut:
		return decoded(body, func(r psmsg.CutRequest) (any, error) { return struct{}{}, s.Cut(r) })
	case psmsg.MethodCutParts:
		return s.CutParts(ctx)
	case psmsg.MethodCutDone:
		return decoded(body, func(r psmsg.CutDoneRequest) (any, error) { return struct{}{}, s.CutDone(r) })
	case psmsg.MethodHappen:
		return decoded(body, func(r psmsg.HappenRequest) (any, error) { return s.Happen(r) })
	case psmsg.MethodSwept:
		return struct{}{}, s.Swept(ctx)
	case psmsg.MethodWaits:
		return decoded(body, func(r psmsg.WaitsRequest) (any, error) {
			return psmsg.WaitsReply{Waits: s.Waits(ctx, r.Worker, time.Duration(r.LeastMicros)*time.Microsecond)}, nil
		})
	case psmsg.MethodDenseState:
		return decoded(body, func(r psmsg.DenseStateRequest) (any, error) { return s.DenseState(r) })
	case psmsg.MethodLives:
		return decoded(body, func(r psmsg.LivesRequest) (any, error) { return s.Lives(r) })
	}
	return s.trainer(ctx, worker, method, body)
}

func (s *Server) open(ctx context.Context, sessions []*session, req psmsg.OpenRequest) (psmsg.OpenReply, error) {
	rep := psmsg.OpenReply{Landing: make([]rdma.RemoteRange, len(sessions)), Eager: s.slotBytes() - psmsg.RequestBytes}
	if len(req.Replies) != len(sessions) {
		return rep, fmt.Errorf("server: open names %d reply rings for %d lanes", len(req.Replies), len(sessions))
	}
	if len(req.Next) != 0 && len(req.Next) != len(sessions) {
		return rep, fmt.Errorf("server: open names %d sequences for %d lanes", len(req.Next), len(sessions))
	}
	for i, ses := range sessions {
		l := s.lanes[i]
		next := uint64(0)
		if len(req.Next) > 0 {
			next = req.Next[i]
		}
		if l.chain != nil {
			if err := l.chain.enter(ctx, ses, req.Since); err != nil {
				return rep, err
			}
		}
		var err error
		var standing psmsg.Standing
		if e := l.do(commandTimeout, func() {
			err = l.openSession(ses, req.Replies[i], next)
			ses.beside = req.Beside && ses.twin()
			standing = l.standing(ses.worker)
		}); e != nil || err != nil {
			return rep, errors.Join(e, err)
		}
		rep.Landing[i] = ses.landing()
		rep.Standing = append(rep.Standing, standing)
		if ses.link != nil {
			rep.Eager = min(rep.Eager, eagerBytes)
		}
	}
	return rep, nil
}

// leave takes a worker out of the clocks, so that nobody waits for it. One that only looks
// has no place there.
func (s *Server) leave(worker int) error {
	s.mu.Lock()
	s.left[worker] = true
	steps := s.takesSteps(worker)
	s.mu.Unlock()
	defer s.barrier.look()
	if s.cfg.Chain != nil {
		return s.lanes[0].chain.leave(worker)
	}
	return s.each(func(l *lane) error {
		if steps {
			l.clock.Leave(worker)
		}
		l.release(worker)
		l.settle()
		return nil
	})
}

// each runs f on every lane at once and waits for all.
func (s *Server) each(f func(*lane) error) error { return s.eachWithin(commandTimeout, f) }

func (s *Server) eachWithin(limit time.Duration, f func(*lane) error) error {
	errs := make([]error, len(s.lanes))
	var wg sync.WaitGroup
	for i, l := range s.lanes {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var err error
			errs[i] = errors.Join(l.do(limit, func() { err = f(l) }), err)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Digest is the sum over all rows and dense blocks of this server.
func (s *Server) Digest() (table.Digest, error) {
	var mu sync.Mutex
	var sum table.Digest
	err := s.eachWithin(wholeTimeout, func(l *lane) error {
		d := l.dense.digest()
		for _, t := range l.order {
			rows, err := t.rows.Digest()
			if err != nil {
				return err
			}
			d.Add(rows)
		}
		mu.Lock()
		sum.Add(d)
		mu.Unlock()
		return nil
	})
	return sum, err
}

// Stats counts since the server began.
func (s *Server) Stats() (psmsg.StatsReply, error) { return s.StatsWithin(commandTimeout) }

// StatsWithin is Stats for one who does not wait long for a busy lane.
func (s *Server) StatsWithin(limit time.Duration) (psmsg.StatsReply, error) {
	rep := psmsg.StatsReply{Server: s.cfg.ID}
	if c := s.cfg.Chain; c != nil {
		rep.Server, rep.Group = c.Self.Server, &c.Group
	}
	var mu sync.Mutex
	err := s.eachWithin(limit, func(l *lane) error {
		mu.Lock()
		defer mu.Unlock()
		for _, t := range l.order {
			st := t.rows.Stats()
			i := slices.IndexFunc(rep.Tables, func(r psmsg.TableStats) bool { return r.Name == t.spec.Name })
			if i < 0 { // the lanes of a table that is being made differ for a moment
				i = len(rep.Tables)
				rep.Tables = append(rep.Tables, psmsg.TableStats{})
			}
			rep.Tables[i].Name, rep.Tables[i].RowBytes = t.spec.Name, t.spec.RowBytes()
			rep.Tables[i].Rows += int64(t.rows.Len())
			rep.Tables[i].Bytes += st.Bytes
			if l.hasTiers() {
				addTiers(&rep.Tables[i], st)
				addDevice(rep.Tables[i].Tiers, st.Device)
				addAhead(&rep.Tables[i], t, st)
			}
			if life := t.life(); life != nil {
				if rep.Tables[i].Life == nil {
					rep.Tables[i].Life = &psmsg.LifeStats{}
				}
				rep.Tables[i].Life.Add(life)
			}
			rep.Rows += int64(t.rows.Len())
			rep.TableBytes += st.Bytes
			rep.Memory = st.Memory
			if l.pinned != nil {
				rep.Memory += "; " + l.pinned.Error()
			}
		}
		l.addDisks(&rep)
		rep.Pulls += l.stats.pulls
		rep.Pushes += l.stats.pushes
		rep.Duplicates += l.stats.duplicates
		rep.StaleTickets += l.stats.stale
		rep.ExpiredTickets += l.stats.expired
		rep.AnnouncedKeys += l.stats.announced
		rep.Merged += l.stats.merged
		rep.RefusedRows += l.stats.refused
		rep.Copied.Add(l.stats.copied)
		l.addSyncs(&rep)
		rep.BusySeconds += l.stats.busy.Seconds()
		rep.Lanes = append(rep.Lanes, l.waiting())
		if l.refusal != nil {
			rep.Refusal = l.refusal.Error()
			if s.cfg.MaxBytes > 0 && !errors.Is(l.refusal, ssd.ErrFull) && !errors.Is(l.refusal, hbm.ErrSmall) {
				rep.Refusal += fmt.Sprintf(" in one of %d lanes, which share the server's memory budget of %d bytes", len(s.lanes), s.cfg.MaxBytes)
			}
		}
		return nil
	})
	slices.SortFunc(rep.Lanes, func(a, b psmsg.LaneStats) int { return a.Lane - b.Lane })
	rep.FanIn, rep.Flows, rep.View = s.links.stats(), s.Flows(), s.watch.stats()
	rep.PeakRSSBytes, rep.CPUSeconds = usage.Process()
	return rep, err
}
