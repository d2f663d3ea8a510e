package verbs

import (
	"fmt"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// Bare lends the connected queue pair to a benchmark of bare loops: nothing of
// this package touches it or its completion queue until f returns. The queue
// has no other endpoint, and no signaled request is in flight. key gives the
// local key of a registered buffer.
func (ep *endpoint) Bare(f func(qp *ibv.QP, cq *ibv.CQ, key func(b []byte) uint32) error) error {
	q := ep.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for deadline := time.Now().Add(ep.cfg.OpTimeout); ; {
		q.gather()
		ep.mu.Lock()
		busy := ep.state == connected && (ep.probe != probeIdle || ep.untold != int(ep.sendNext-ep.sendTail))
		if !busy || time.Now().After(deadline) {
			break
		}
		ep.mu.Unlock()
	}
	defer ep.mu.Unlock()
	if ep.state != connected {
		return ep.refusal("bare loops")
	}
	if q.reserved != ep.cfg.SendDepth+ep.cfg.RecvDepth || ep.untold != int(ep.sendNext-ep.sendTail) {
		return fmt.Errorf("verbs: bare loops to %s: the queue has other endpoints, or requests are in flight: %w", ep.cfg.Peer, rdma.ErrInvalid)
	}
	return f(ep.qp, q.cq, func(b []byte) uint32 {
		if r := ep.dom.find(&ep.sendLast, addressOf(b), uint64(len(b))); r != nil {
			return r.mr.LKey
		}
		return 0
	})
}
