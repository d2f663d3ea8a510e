package server

import (
	"fmt"

	"psrt/sched/psmsg"
)

// carry takes workers out of the clocks whose pushes are in another's. Where lanes add
// what workers push they are absent, as in a step in which they have nothing; so the sum
// is that of all, if who carries them stands where the order of additions has their sum.
func (s *Server) carry(by int, r psmsg.CarryRequest) error {
	s.mu.Lock()
	for _, w := range r.Workers {
		if w == by || w < 0 || w >= s.cfg.Workers || s.connected(w) {
			s.mu.Unlock()
			return fmt.Errorf("%s: worker %d cannot push for worker %d: that is no other worker below %d, or it pushes itself", s.cfg.name(), by, w, s.cfg.Workers)
		}
	}
	s.mu.Unlock()
	for _, w := range r.Workers {
		if err := s.leave(w); err != nil {
			return err
		}
	}
	return nil
}
