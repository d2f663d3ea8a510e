package micro

import (
	"time"

	"psrt/rdma"
)

// stream keeps as many requests in flight as there are slots, posted in
// groups of which the last is signaled, until p.Iterations are complete.
func (s *station) stream(p phase, op rdma.Op) (time.Duration, error) {
	n := p.slots()
	per := group(n)
	wrs := make([]rdma.WR, n)
	for i := range wrs {
		wrs[i] = rdma.WR{Op: op, Local: place(s.buf, p.Bytes, i), Remote: s.remotePlace(p.Bytes, i)}
	}
	start := time.Now()
	deadline := start.Add(stall)
	var left []rdma.WR // of a group that did not fit
	for posted, done := 0, 0; done < p.Iterations; {
		for posted < p.Iterations && posted-done+per <= n && len(left) == 0 {
			at, k := posted%n, min(per, p.Iterations-posted)
			left = wrs[at : at+k]
			for i := range left {
				left[i].Signaled = false
			}
			posted += k
			left[k-1].Signaled, left[k-1].ID = true, uint64(posted)
			k, err := s.ep.Post(left)
			if err != nil {
				return 0, err
			}
			left = left[k:]
		}
		c, err := s.next(deadline)
		if err != nil {
			return 0, err
		}
		if c.ID == pingID {
			continue
		}
		done = int(c.ID)
		if done%(64*per) == 0 {
			deadline = time.Now().Add(stall)
		}
		if len(left) > 0 {
			k, err := s.ep.Post(left)
			if err != nil {
				return 0, err
			}
			left = left[k:]
		}
	}
	return time.Since(start), nil
}
