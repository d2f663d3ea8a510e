package server

import (
	"context"
	"fmt"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
)

// readsState are the control calls that give what a lane has, and do not go through the
// group's order.
var readsState = map[string]bool{psmsg.MethodDigest: true, psmsg.MethodSave: true, psmsg.MethodCut: true, psmsg.MethodCutParts: true,
	psmsg.MethodCutDone: true, psmsg.MethodLives: true, psmsg.MethodSwept: true, psmsg.MethodDenseState: true}

// slotBytes is the length of a landing slot: groups are many, and requests to each the
// smaller.
func (s *Server) slotBytes() int {
	if s.cfg.Chain != nil {
		return psmsg.ChainedSlotBytes
	}
	return psmsg.SlotBytes
}

// enter makes a session's client the one whose pushes count, and returns when that is
// committed.
// since is the epoch of the chain in which the client says that this server leads, 0 if it
// does not say.
func (c *chained) enter(ctx context.Context, ses *session, since uint64) error {
	_, err := c.call(ctx, commandTimeout,
		&chainCall{since: since, h: chain.Header{Kind: chain.Enter, Worker: uint32(ses.worker), Client: ses.client}})
	return err
}

// leave takes a worker out of the clocks. Its client pushes no more.
func (c *chained) leave(worker int) error {
	var client chain.Client
	if err := c.l.do(commandTimeout, func() { client = c.m.Client(uint32(worker)) }); err != nil {
		return err
	}
	k := &chainCall{h: chain.Header{Kind: chain.Leave, Worker: uint32(worker), Client: client.Client}}
	if client.Client == 0 { // nobody has been that worker
		_, err := c.order(context.Background(), commandTimeout, order{Leave: &worker})
		return err
	}
	_, err := c.call(context.Background(), commandTimeout, k)
	return err
}

func (s *Server) enterChained(worker int, step uint64, workers int) (psmsg.EnterReply, error) {
	v, err := s.lanes[0].chain.order(context.Background(), commandTimeout, order{Enter: &orderEnter{worker, step, workers}})
	if err != nil {
		return psmsg.EnterReply{}, err
	}
	s.mu.Lock()
	delete(s.left, worker)
	s.mu.Unlock()
	at, _ := v.(uint64)
	return psmsg.EnterReply{Step: at}, nil
}

func (s *Server) happenChained(req psmsg.HappenRequest) (psmsg.HappenReply, error) {
	v, err := s.lanes[0].chain.order(context.Background(), commandTimeout, order{Happen: &req})
	if err != nil {
		return psmsg.HappenReply{}, fmt.Errorf("group %d: %w", s.cfg.ID, err)
	}
	rep, _ := v.(psmsg.HappenReply)
	return rep, nil
}
