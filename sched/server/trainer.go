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
	"psrt/rdma/dial"
	"psrt/sched/clock"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// Trainers is what a server does for trainers that learn the job from it. The
// zero value describes and opens what Config names and makes nothing new.
type Trainers struct {
	// Directory gives the map with the address of every server; nil: Config.Map,
	// with this server's own address filled in.
	Directory func(context.Context) (*place.Map, error)
	// NewTable looks at the description of a table that is to be made, may
	// complete it, or refuses. nil refuses all.
	NewTable func(*psmsg.TableRequest) error
	// Dense names parts of the dense vector.
	Dense []psmsg.DensePart
	// Reserved is how many of the last numbers no trainer is given that takes any.
	Reserved int
}

// visitorStays bounds a visitor's connection: it asks one thing.
const visitorStays = 30 * time.Second

// visit serves a connection without endpoints, which may only ask what the job is.
func (s *Server) visit(ctx context.Context, in *dial.Incoming) {
	conn, err := in.Finish(func(int, rdma.Domain) rdma.EndpointConfig { return rdma.EndpointConfig{} }, []byte("{}"))
	if err != nil {
		return // the visitor was told, or is gone
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, visitorStays)
	defer cancel()
	_ = conn.Serve(ctx, func(ctx context.Context, method string, _ json.RawMessage) (any, error) {
		if method != psmsg.MethodDescribe {
			return nil, fmt.Errorf("%s: a visitor may not ask %q", s.cfg.name(), method)
		}
		return s.describe(ctx)
	})
}

// trainer answers the control calls of trainers.
func (s *Server) trainer(ctx context.Context, worker int, method string, body json.RawMessage) (any, error) {
	switch method {
	case psmsg.MethodDescribe:
		return s.describe(ctx)
	case psmsg.MethodEnter:
		return decoded(body, func(r psmsg.EnterRequest) (any, error) { return s.enter(worker, r) })
	case psmsg.MethodTable:
		return decoded(body, func(r psmsg.TableRequest) (any, error) { return s.openTable(ctx, r) })
	case psmsg.MethodFinish:
		return decoded(body, func(r psmsg.FinishRequest) (any, error) { return struct{}{}, s.finish(worker, r) })
	case psmsg.MethodBlocked:
		return decoded(body, func(r psmsg.BlockedRequest) (any, error) { return s.blocked(worker, r) })
	case psmsg.MethodPushed:
		return s.pushed(worker)
	case psmsg.MethodBarrier:
		return decoded(body, func(r psmsg.BarrierRequest) (any, error) {
			return s.barrier.wait(ctx, worker, s.meeting(r.Workers), time.Duration(r.TimeoutMicros)*time.Microsecond), nil
		})
	}
	return nil, fmt.Errorf("server: no control method %q", method)
}

func decoded[R any](body json.RawMessage, f func(R) (any, error)) (any, error) {
	var r R
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	return f(r)
}

func (s *Server) describe(ctx context.Context) (*psmsg.DescribeReply, error) {
	m, err := s.directory(ctx)
	if err != nil {
		return nil, err
	}
	blocks, err := densemap.Cut(s.cfg.Dense.Ranges)
	if err != nil {
		return nil, err
	}
	s.tablesMu.Lock()
	tables := slices.Clone(s.tables)
	s.tablesMu.Unlock()
	rep := &psmsg.DescribeReply{Map: m, Workers: s.cfg.Workers, Open: s.vacated, Staleness: s.cfg.Staleness, Tables: tables,
		DenseLen: len(s.cfg.Dense.Init), DenseBlocks: len(blocks), Dense: s.cfg.Trainers.Dense}
	rep.Record(s.cfg.Audit, blocks)
	return rep, nil
}

func (s *Server) directory(ctx context.Context) (*place.Map, error) {
	if f := s.cfg.Trainers.Directory; f != nil {
		return f(ctx)
	}
	m := *s.cfg.Map
	m.Servers = slices.Clone(m.Servers)
	if s.listener == nil { // where a group is trainers know from the shard map
		return &m, nil
	}
	if i := m.Index(s.cfg.ID); m.Servers[i].Addr == "" {
		m.Servers[i].Addr = s.Addr()
	}
	return &m, nil
}

// enter lets a worker take part in the clocks (again).
func (s *Server) enter(worker int, r psmsg.EnterRequest) (psmsg.EnterReply, error) {
	rep, err := s.enterClocks(worker, s.expects(r))
	var differs *clock.QuorumError
	if errors.As(err, &differs) {
		return s.refuseEnter(differs), nil
	}
	return rep, err
}

func (s *Server) enterClocks(worker int, r psmsg.EnterRequest) (psmsg.EnterReply, error) {
	if s.cfg.Chain != nil && r.Step != nil {
		return s.enterChained(worker, *r.Step, r.Workers)
	}
	var mu sync.Mutex
	var rep psmsg.EnterReply
	expectsAny := false
	err := s.each(func(l *lane) error {
		if r.Workers > 0 {
			if err := l.clock.CheckQuorum(worker, r.Workers); err != nil {
				return err
			}
		}
		at, expects := l.clock.EnterAt(worker), false
		if r.Step != nil {
			if *r.Step == clock.None {
				return errors.New("server: a worker cannot enter at no step")
			}
			expects = l.clock.Expect(worker, r.Workers, *r.Step)
			at = l.clock.Enter(worker, *r.Step)
			l.settle()
		}
		mu.Lock()
		defer mu.Unlock()
		rep.Step = max(rep.Step, at)
		expectsAny = expectsAny || expects
		return nil
	})
	if err == nil && r.Step != nil {
		s.mu.Lock()
		delete(s.left, worker)
		s.mu.Unlock()
	}
	if expectsAny {
		s.boundRejoin(r.Back)
	}
	return rep, err
}
