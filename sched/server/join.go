package server

import (
	"fmt"

	"psrt/sched/psmsg"
)

// join lets a client begin to connect as a worker. Two processes with one
// number would take each other's connection away for ever, and each other's
// pushes for duplicates: the second is refused while the first is connected.
func (s *Server) join(hello psmsg.Hello) (worker int, err error) {
	var known []uint64
	if s.vacated && hello.Any {
		known = s.clients()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	worker, client := hello.Worker, hello.Client
	if s.vacated && hello.Any {
		if worker = s.number(worker, client, known, hello.Looks); worker < 0 {
			return 0, fmt.Errorf("%s: %d trainers are connected, the most that it takes: start it with a larger --clients, or end one", s.cfg.name(), s.cfg.Workers-s.cfg.Trainers.Reserved)
		}
	}
	if s.joining[worker] >= maxJoining {
		return 0, fmt.Errorf("%s: %d connections of worker %d are being set up already: wait until one is open", s.cfg.name(), s.joining[worker], worker)
	}
	newer, err := s.supersede(worker, hello.Generation)
	if err != nil {
		return 0, err
	}
	if holder := s.holder[worker]; !newer && holder != client && s.connected(worker) && (!s.vacated || !s.left[worker]) {
		return 0, fmt.Errorf("%s: another process is connected as worker %d: start every rank once", s.cfg.name(), worker)
	}
	if s.vacated {
		delete(s.left, worker)
	}
	s.holder[worker] = client
	s.joining[worker]++
	return worker, nil
}

// joined ends what join began.
func (s *Server) joined(worker int) {
	s.mu.Lock()
	s.joining[worker]--
	s.mu.Unlock()
}

// connected tells whether a worker has a connection or is about to. With mu.
func (s *Server) connected(worker int) bool {
	if s.joining[worker] > 0 {
		return true
	}
	for _, w := range s.conns {
		if w == worker {
			return true
		}
	}
	return false
}
