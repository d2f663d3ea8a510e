package server

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
)

const (
	// sweepBusy and sweepIdle are how many rows a sweep looks at in a turn of a lane
	// that had something else to do, and in one that had not: some tens of
	// microseconds, and some hundreds.
	sweepBusy = 256
	sweepIdle = 4096
)

// happening is events that wait for their step.
type happening struct {
	order  uint64 // among what waits for a step
	step   uint64
	table  *tableState
	events []accessor.Event
}

// lives is what a lane knows of lifecycles.
type lives struct {
	order   uint64 // given so far
	waiting []happening
	swept   []chan struct{} // to be closed when nothing is left to drop
}

// Happen has events happen to a table; see psmsg.HappenRequest.
func (s *Server) Happen(req psmsg.HappenRequest) (psmsg.HappenReply, error) {
	events, err := accessor.ParseEvents(req.Events)
	if err != nil {
		return psmsg.HappenReply{}, err
	}
	if s.cfg.Chain != nil {
		return s.happenChained(req)
	}
	s.lifeMu.Lock() // every lane gets them in the same order
	defer s.lifeMu.Unlock()
	replies := make([]psmsg.HappenReply, len(s.lanes))
	err = s.each(func(l *lane) (err error) {
		replies[l.index], err = l.happen(req, events)
		return err
	})
	if err != nil {
		return psmsg.HappenReply{}, fmt.Errorf("%s: %w", s.cfg.name(), err)
	}
	return replies[0], nil
}

// happen takes events that come next, and lets what is due happen.
func (l *lane) happen(req psmsg.HappenRequest, events []accessor.Event) (rep psmsg.HappenReply, err error) {
	t := l.tables[req.Table]
	if t == nil || t.spec.Lifecycle == nil {
		return rep, fmt.Errorf("there is no table %d with a lifecycle", req.Table)
	}
	var waiting []accessor.Event
	for _, h := range l.lives.waiting {
		if h.table == t {
			waiting = append(waiting, h.events...)
		}
	}
	h := t.rows.Accessor().History()
	rep.Len = h.Len() + len(waiting)
	switch {
	case req.From < 0 || req.From > rep.Len:
		return rep, fmt.Errorf("table %q has had %d events, asked is for what follows %d of them", t.spec.Name, rep.Len, req.From)
	case req.From < rep.Len:
		since := append(h.From(min(req.From, h.Len())), waiting[max(0, req.From-h.Len()):]...)
		if req.Tell || !slices.Equal(since[:min(len(since), len(events))], events) {
			rep.Missing = accessor.FormatEvents(since...)
		}
		return rep, nil
	}
	if req.Tell {
		return rep, nil
	}
	if err := h.MayFollow(waiting, events); err != nil {
		return rep, fmt.Errorf("table %q: %w", t.spec.Name, err)
	}
	if len(events) > 0 {
		l.lives.waiting = append(l.lives.waiting, happening{l.nextOrder(), req.Step, t, events})
		rep.Len += len(events)
		if l.chain == nil { // else the op goes on
			l.settle()
		}
	}
	return rep, nil
}

// nextOrder numbers what waits for a step: of two for the same, the earlier comes
// first.
func (l *lane) nextOrder() uint64 {
	l.lives.order++
	return l.lives.order
}

// between lets happen what is due between two steps: events, and the cut, in the order in
// which they came. What is not due holds nothing up: a cut is the head's alone, and its
// rows must have what those of other replicas have.
func (l *lane) between(isDue func(step uint64) bool) {
	for {
		cut, waiting := l.cut, l.lives.waiting
		event, due := len(waiting) > 0 && isDue(waiting[0].step), cut != nil && !cut.taken && isDue(cut.step)
		switch {
		case event && (!due || waiting[0].order < cut.order):
			h := waiting[0]
			l.lives.waiting = slices.Delete(waiting, 0, 1)
			l.befall(h.table, h.events)
		case due:
			l.takeCut()
		default:
			return
		}
	}
}

// befall lets events happen now. That they may was seen when they came.
func (l *lane) befall(t *tableState, events []accessor.Event) {
	for _, e := range events {
		if err := t.rows.Happen(e); err != nil {
			l.refusal = err
			return
		}
		l.audit.Happened(t.spec.ID, t.version, t.rows.Accessor().History().Len(), []accessor.Event{e})
		if e.Kind == accessor.Shrink || e.Kind == accessor.Evict {
			t.sweep = sweepAgain
		}
	}
}

// A table's sweep: none, one under way, one to be begun when that is over.
const (
	sweepNone = iota
	sweepOn
	sweepAgain
)

// sweepSome drops some rows that have ended, and returns whether it looked at any.
func (l *lane) sweepSome(busy bool) (some bool) {
	n := sweepIdle
	if busy {
		n = sweepBusy
	}
	left := false
	if l.chain != nil && l.chain.copying.on { // a table has one walk
		return false
	}
	for _, t := range l.order {
		if t.sweep == sweepNone {
			continue
		}
		if t.sweep == sweepAgain && !t.sweeping {
			t.sweep = sweepOn
		}
		before := t.rows.Stats().Deleted
		_, more, err := t.rows.Sweep(n, nil)
		t.sweeping = more && err == nil
		switch {
		case err != nil: // what ended is found so by whoever looks
			l.refusal, t.sweep = err, sweepNone
		case !more && t.sweep == sweepOn:
			t.sweep = sweepNone
		}
		left = left || t.sweep != sweepNone
		some = some || t.inMemory || t.rows.Stats().Deleted > before
	}
	if !left && len(l.lives.swept) > 0 {
		for _, c := range l.lives.swept {
			close(c)
		}
		l.lives.swept = nil
	}
	return some && left
}

// Swept waits until no lane has anything to drop.
func (s *Server) Swept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	for _, l := range s.lanes {
		done := make(chan struct{})
		err := l.do(commandTimeout, func() {
			if !slices.ContainsFunc(l.order, func(t *tableState) bool { return t.sweep != sweepNone }) {
				close(done)
				return
			}
			l.lives.swept = append(l.lives.swept, done)
		})
		if err != nil {
			return err
		}
		select {
		case <-done:
		case <-l.gone:
			return fmt.Errorf("server: lane %d has ended", l.global)
		case <-ctx.Done():
			return fmt.Errorf("%s: dropping rows that have ended: %w", s.cfg.name(), context.Cause(ctx))
		}
	}
	return nil
}

// Lives says what has become of rows with a lifecycle.
func (s *Server) Lives(req psmsg.LivesRequest) (psmsg.LivesReply, error) {
	rep := psmsg.LivesReply{Tables: map[uint32]*psmsg.Lives{}}
	var mu sync.Mutex
	err := s.eachWithin(wholeTimeout, func(l *lane) error {
		for _, t := range l.order {
			if t.spec.Lifecycle == nil {
				continue
			}
			mine := psmsg.Lives{LifeStats: *t.life()}
			if req.Census {
				acc := t.rows.Accessor()
				if err := t.rows.Range(func(_ uint64, row []float32) bool {
					c := acc.Counters(row)
					mine.Rows++
					for _, n := range []struct {
						is bool
						to *int64
					}{{c.Admitted(), &mine.Admitted}, {c.Extended(), &mine.Extended}, {c.Served(), &mine.Served}} {
						if n.is {
							*n.to++
						}
					}
					return true
				}); err != nil {
					return err
				}
			}
			mu.Lock()
			if rep.Tables[t.spec.ID] == nil {
				rep.Tables[t.spec.ID] = &psmsg.Lives{}
			}
			rep.Tables[t.spec.ID].Add(&mine)
			mu.Unlock()
		}
		return nil
	})
	return rep, err
}

// life counts what has happened to a table; nil without a lifecycle.
func (t *tableState) life() *psmsg.LifeStats {
	if t.spec.Lifecycle == nil {
		return nil
	}
	acc := t.rows.Accessor()
	h := acc.History()
	return &psmsg.LifeStats{Events: h.Len(), Days: h.Count(accessor.Day), Shrinks: h.Count(accessor.Shrink), Saves: h.Count(accessor.Saved),
		Evicted: h.Count(accessor.Evict), Gone: acc.Gone(), Sweeping: t.sweep != sweepNone, Graves: acc.Graves().Len()}
}
