package server

import (
	"context"
	"errors"

	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// Vacate empties all places: from now on workers come and go, nobody waits for
// one that is not there, and a client may have any free number. Call it before
// Serve.
func (s *Server) Vacate() {
	s.vacated = true
	for w := range s.cfg.Workers {
		s.left[w] = true
		for _, l := range s.lanes {
			l.clock.Leave(w)
			if l.chain != nil {
				l.chain.vacant = true
			}
		}
	}
}

// number finds a place for a client that takes any: the one it has, the one it
// wishes, or the lowest free one; -1 where there is none. One that only looks gets the
// highest, so that it takes no place of a job that says how many workers it has. With mu.
//
// known is by worker the newest client that a group's chain has seen, nil without one:
// a chain takes none of a lower number after it.
func (s *Server) number(wish int, client uint64, known []uint64, looks bool) int {
	for w, holder := range s.holder {
		if holder == client {
			return w
		}
	}
	free := func(w int) bool { return s.vacant(w) && (known == nil || known[w] < client) }
	places := s.cfg.Workers - s.cfg.Trainers.Reserved
	if looks {
		for w := places - 1; w >= 0; w-- {
			if free(w) {
				return w
			}
		}
		return -1
	}
	if wish < places && free(wish) {
		return wish
	}
	for w := range places {
		if free(w) {
			return w
		}
	}
	return -1
}

// clients are by worker those that the group knows; nil without a chain.
func (s *Server) clients() (known []uint64) {
	if s.cfg.Chain == nil {
		return nil
	}
	c := s.lanes[0].chain
	_ = c.l.do(commandTimeout, func() {
		known = make([]uint64, s.cfg.Workers)
		for w := range known {
			known[w] = c.m.Client(uint32(w)).Client
		}
	})
	return known
}

// expect has a head that is new keep the places of those that take part: it has not
// seen them yet, and they come to it.
func (s *Server) expect() {
	c := s.lanes[0].chain
	in := make([]bool, s.cfg.Workers)
	if c.l.do(commandTimeout, func() {
		for w := range in {
			in[w] = c.l.clock.Here(w)
		}
	}) != nil {
		return // it has ended
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, part := range in {
		if !part || s.closed {
			continue
		}
		delete(s.left, w)
		if !s.connected(w) && s.away[w] == nil {
			s.await(w, errNotBack)
		}
	}
}

// errNotBack is why a new head gives up one that its chain knows.
var errNotBack = errors.New("server: the group has another head, and it did not come to that")

// Lost takes a worker out of the clocks that broke its connection: of a group with a
// chain it may still come back, and push what it has, as long as nobody has its number.
func (s *Server) Lost(worker int) error {
	s.mu.Lock()
	s.left[worker] = true
	steps := s.takesSteps(worker)
	s.mu.Unlock()
	defer s.barrier.look()
	if s.cfg.Chain == nil {
		return s.each(func(l *lane) error {
			if steps {
				l.clock.Lose(worker)
			}
			l.release(worker)
			l.settle()
			return nil
		})
	}
	gone := order{Lose: &worker}
	if !s.lanes[0].chain.knowsQuorum() {
		gone = order{Leave: &worker}
	}
	_, err := s.lanes[0].chain.order(context.Background(), commandTimeout, gone)
	return err
}

// takesSteps says whether a worker has a place in the clocks: of a job whose workers come
// and go, one that only looks has none. With mu.
func (s *Server) takesSteps(worker int) bool { return !s.vacated || !s.lookers[worker] }

// vacant: nobody has the number, or only the connection of one that has said
// goodbye, and nobody is expected back. With mu.
func (s *Server) vacant(worker int) bool {
	return (s.left[worker] || !s.connected(worker)) && s.away[worker] == nil
}

// meeting is how many workers make a barrier whole.
func (s *Server) meeting(asked int) func() int {
	return func() int {
		switch {
		case asked > 0:
			return asked
		case !s.vacated:
			return s.cfg.Workers
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		here := map[int]bool{}
		for _, w := range s.conns {
			if !s.left[w] && !s.lookers[w] {
				here[w] = true
			}
		}
		if s.cfg.Chain != nil { // they may only be on their way to a new head
			for w := range s.away {
				here[w] = here[w] || !s.left[w] && !s.lookers[w]
			}
		}
		return max(1, len(here))
	}
}

// OpenTable finds a table by name, or makes it; see psmsg.TableRequest.
func (s *Server) OpenTable(r psmsg.TableRequest) (psmsg.TableReply, error) {
	return s.openTable(context.Background(), r)
}

// Tables are the tables that there are now.
func (s *Server) Tables() []table.Spec {
	s.tablesMu.Lock()
	defer s.tablesMu.Unlock()
	return append([]table.Spec(nil), s.tables...)
}

// past remembers how far clients had come that lost their number to another: one
// that comes back under a new number must not have its pushes applied again.
type past struct {
	last  map[uint64]uint64 // client to its last sequence
	order []uint64          // oldest first
}

// maxPast bounds a lane's memory of clients that are gone.
const maxPast = 4096

func (p *past) keep(client, seq uint64) {
	if client == 0 {
		return
	}
	if p.last == nil {
		p.last = map[uint64]uint64{}
	}
	if _, ok := p.last[client]; !ok {
		if len(p.order) == maxPast {
			delete(p.last, p.order[0])
			p.order = p.order[:copy(p.order, p.order[1:])]
		}
		p.order = append(p.order, client)
	}
	p.last[client] = seq
}

// take gives the sequence after which a client goes on: as the lane knows it,
// under whatever number, else as the client says.
func (p *past) take(l *lane, client, says uint64) uint64 {
	for w, c := range l.client {
		if c == client {
			l.client[w] = 0
			return l.lastSeq[w]
		}
	}
	if seq, ok := p.last[client]; ok {
		return seq
	}
	return says
}
