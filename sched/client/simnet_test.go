package client

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/sim"
)

// simNet is a rough network in memory that every process of a world is on.
type simNet struct {
	net *sim.Network
	mu  sync.Mutex
	all []string // the domains' names
}

func newSimNet(t testing.TB) *simNet {
	t.Helper()
	n, err := sim.New(seedtest.Seed(t), sim.Config{LatencyMicros: 10, JitterMicros: 200, Loss: 0.02, RetransmitMicros: 500})
	must(t, err)
	return &simNet{net: n}
}

func (s *simNet) domain() rdma.Domain {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("process %d", len(s.all))
	s.all = append(s.all, name)
	return s.net.Domain(name)
}

// hurt does to one way between two processes what networks do: it severs the
// connections on it (the peer is not told), or drops all that travels on it
// for a while.
func (s *simNet) hurt(rng *rand.Rand) {
	s.mu.Lock()
	from, to := s.all[rng.IntN(len(s.all))], s.all[rng.IntN(len(s.all))]
	s.mu.Unlock()
	if rng.IntN(2) == 0 {
		s.net.Break(from, to)
		return
	}
	s.net.Cut(from, to)
	time.AfterFunc(time.Duration(1+rng.IntN(20))*time.Millisecond, func() { s.net.Heal(from, to) })
	if rng.IntN(2) == 0 { // executed at the peer, and the answer never comes
		s.net.Break(to, from)
	}
}
