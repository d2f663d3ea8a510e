package qualify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"psrt/bench/micro"
	"psrt/rdma"
	"psrt/rdma/dial"
)

// side is one end of a duel's connection.
type side struct {
	r     *rank
	peer  int
	first bool

	queue  rdma.Queue
	region rdma.Region
	conn   *dial.Conn
	link   *micro.Link
	over   chan struct{}
	watch  sync.WaitGroup
}

// attach is asked again for each transport that is tried.
func (s *side) attach(d rdma.Domain) (rdma.EndpointConfig, error) {
	if s.queue != nil {
		_ = s.queue.Close() // of a try that failed
		s.queue = nil
	}
	var err error
	if s.region, err = s.r.region(d); err != nil {
		return rdma.EndpointConfig{}, err
	}
	if s.queue, err = d.NewQueue(2 * micro.LinkDepth); err != nil {
		return rdma.EndpointConfig{}, err
	}
	return rdma.EndpointConfig{
		Queue: s.queue, SendDepth: micro.LinkDepth, RecvDepth: micro.LinkDepth,
		Peer: fmt.Sprintf("rank %d", s.peer), OpTimeout: s.r.plan.Timeout,
	}, nil
}

// join makes the link on a finished connection; the end of ctx or of the
// connection stops it.
func (s *side) join(ctx context.Context, conn *dial.Conn) (err error) {
	s.conn = conn
	s.link, err = micro.NewLink(micro.LinkConfig{
		Caps: conn.Domains[0].Caps(), Queue: s.queue, Endpoint: conn.Endpoints[0], Memory: s.r.buf, First: s.first,
	})
	if err != nil {
		return err
	}
	s.over = make(chan struct{})
	s.watch.Go(func() {
		select {
		case <-ctx.Done():
		case <-conn.Done():
		case <-s.over:
		}
		s.link.Stop()
	})
	return nil
}

func (s *side) close() error {
	if s.over != nil {
		close(s.over)
		s.watch.Wait()
	}
	var errs []error
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.queue != nil {
		errs = append(errs, s.queue.Close())
	}
	return errors.Join(errs...)
}

// second is the part of the rank that was dialed: it answers on the connection
// until that ends.
type second struct {
	*side
	mu      sync.Mutex
	playing chan played // of the phase under way, nil between phases
}

type played struct {
	cpuSeconds float64
	err        error
}

func (s *second) answer(_ context.Context, method string, body json.RawMessage) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case peerAim:
		var theirs aim
		if err := json.Unmarshal(body, &theirs); err != nil {
			return nil, err
		}
		s.link.Aim(theirs.Region)
		return aim{s.region.Remote()}, nil
	case peerPhase:
		var p micro.Phase
		if err := json.Unmarshal(body, &p); err != nil {
			return nil, err
		}
		if s.playing != nil {
			return nil, errors.New("qualify: a phase is under way")
		}
		if err := s.link.Prepare(p); err != nil {
			return nil, err
		}
		done := make(chan played, 1)
		s.playing = done
		s.watch.Go(func() {
			_, cpu, err := s.link.Play(p, nil)
			done <- played{cpu, err}
		})
		return nil, nil
	case peerResult:
		var p micro.Phase
		if err := json.Unmarshal(body, &p); err != nil {
			return nil, err
		}
		if s.playing == nil {
			return nil, errors.New("qualify: no phase is under way")
		}
		got := <-s.playing
		if s.playing = nil; got.err != nil {
			return nil, got.err
		}
		return result{s.link.Checksum(p), got.cpuSeconds}, nil
	}
	return nil, fmt.Errorf("qualify: a rank asks for %q; run the same psbench everywhere", method)
}
