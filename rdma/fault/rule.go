package fault

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/rdma"
)

// ErrInjected is the cause of every failure that this package makes.
var ErrInjected = errors.New("fault: injected by a test's script")

// Rule says which requests to catch, and what happens to them. Exactly one of
// Fail, Lose and Delay is set.
type Rule struct {
	Op    rdma.Op // 0: any
	Peer  string  // EndpointConfig.Peer; "": any
	Nth   int     // first matching request that is caught, counted from 1
	Every int     // then every so many more; 0: only once

	Fail  rdma.Status   // fails, the peer never sees it
	Lose  rdma.Status   // the peer executes it, then it fails here
	Delay time.Duration // it and those behind it wait so long
}

func (r Rule) validate() error {
	set := 0
	for _, b := range []bool{r.Fail != rdma.StatusOK, r.Lose != rdma.StatusOK, r.Delay != 0} {
		if b {
			set++
		}
	}
	if r.Nth < 1 || r.Every < 0 || r.Delay < 0 || set != 1 {
		return fmt.Errorf("fault: %+v: Nth counts from 1, nothing is negative, and exactly one of Fail, Lose, Delay is set: %w",
			r, rdma.ErrInvalid)
	}
	return nil
}

// Script is a list of rules with their counts. Several domains may share one.
// Safe for concurrent use.
type Script struct {
	mu     sync.Mutex
	rules  []Rule
	seen   []int // matching requests so far, per rule
	caught int
}

// NewScript checks the rules; the first that catches a request decides.
func NewScript(rules ...Rule) (*Script, error) {
	s := &Script{}
	return s, s.Add(rules...)
}

// Add appends rules, which count from now on.
func (s *Script) Add(rules ...Rule) error {
	for _, r := range rules {
		if err := r.validate(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, rules...)
	s.seen = append(s.seen, make([]int, len(rules))...)
	return nil
}

// Caught tells how many requests were failed, lost or delayed.
func (s *Script) Caught() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caught
}

// match counts one request with every rule and gives the one that catches it.
func (s *Script) match(op rdma.Op, peer string) (r Rule, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.rules {
		x := &s.rules[i]
		if (x.Op != 0 && x.Op != op) || (x.Peer != "" && x.Peer != peer) {
			continue
		}
		s.seen[i]++
		late := s.seen[i] - x.Nth
		if !ok && (late == 0 || late > 0 && x.Every > 0 && late%x.Every == 0) {
			r, ok = *x, true
			s.caught++
		}
	}
	return r, ok
}
