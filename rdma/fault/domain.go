package fault

import (
	"fmt"
	"time"

	"psrt/rdma"
)

// domain passes everything but queues and endpoints through.
type domain struct {
	rdma.Domain
	script *Script
}

// Wrap gives d with the script's faults; closing it closes d.
func Wrap(d rdma.Domain, s *Script) rdma.Domain { return &domain{Domain: d, script: s} }

func (d *domain) NewQueue(depth int) (rdma.Queue, error) {
	q, err := d.Domain.NewQueue(depth)
	if err != nil {
		return nil, err
	}
	return &queue{Queue: q, ends: map[rdma.Endpoint]*endpoint{}}, nil
}

func (d *domain) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	q, ok := cfg.Queue.(*queue)
	if !ok {
		return nil, fmt.Errorf("fault: endpoint to %s: Queue must be one of this domain: %w", cfg.Peer, rdma.ErrInvalid)
	}
	cfg.Queue = q.Queue
	in, err := d.Domain.NewEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	e := &endpoint{Endpoint: in, q: q, script: d.script, peer: cfg.Peer, depth: cfg.SendDepth}
	e.timer = time.AfterFunc(time.Hour, e.resume)
	e.timer.Stop()
	q.mu.Lock()
	q.ends[in] = e
	q.mu.Unlock()
	return e, nil
}
