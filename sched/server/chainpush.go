package server

import (
	"slices"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
)

// takePushes hands a session's pushes to the chain, as far as they are here. They stay
// in the session's order until they have a place in the group's.
func (c *chained) takePushes(s *session) {
	for len(s.order) > 0 && !s.broken && s.open {
		r := s.order[0]
		if r.fetch.left > 0 || !c.submit(r) {
			return
		}
	}
}

// submit gives a push to the machine. It returns whether the session's next one may be
// looked at.
func (c *chained) submit(r *request) bool {
	if c.failed != nil {
		return false
	}
	s := r.s
	if r.Kind == psmsg.KindPush && r.Flags&psmsg.FlagTicket != 0 && !c.redeem(r) {
		s.removePush(r)
		c.l.stats.stale++
		c.l.reply(r, psmsg.CodeStaleTicket, 0, 0, 0)
		return true
	}
	h := chain.Header{Kind: chain.Push, Worker: uint32(s.worker), Client: s.client, Push: r.Seq, Size: c.bodySize(r)}
	c.lease()
	verdict := c.m.Judge(c.m.Epoch(), &h)
	if verdict == chain.Ordered {
		_, verdict = c.m.Submit(c.m.Epoch(), h, c.encode(r, h.Size))
	}
	switch verdict {
	case chain.Ordered, chain.Pending:
		s.removePush(r)
		r.keys, r.grads = nil, nil
		c.waiting[s.worker] = append(c.waiting[s.worker], r)
		return true
	case chain.Duplicate:
		s.removePush(r)
		c.l.stats.duplicates++
		c.l.reply(r, psmsg.CodeDuplicate, 0, 0, 0)
		return true
	case chain.Elsewhere, chain.Stranger:
		s.broken = true // whoever looks next drops it
	}
	return false
}

// done answers who waits for an op that is committed.
func (c *chained) done(d chain.Done) {
	var res result
	for len(c.results) > 0 && c.results[0].seq <= d.Seq {
		res = c.results[0]
		c.results = c.results[1:]
	}
	if res.seq != d.Seq {
		res = result{seq: d.Seq}
	}
	if d.Kind != chain.Push {
		c.endCall(&d, &res)
		return
	}
	w := int(d.Worker)
	if w >= len(c.waiting) {
		return
	}
	for len(c.waiting[w]) > 0 {
		r := c.waiting[w][0]
		if r.s.client != d.Client || r.Seq > d.Push {
			break
		}
		c.waiting[w] = slices.Delete(c.waiting[w], 0, 1)
		switch {
		case r.Seq < d.Push:
			c.l.reply(r, psmsg.CodeDuplicate, 0, 0, 0)
		case c.failed == nil || len(c.m.Config().Chain) == 1:
			c.l.reply(r, res.code, 0, res.version, res.refused)
		}
	}
}

// forgetSession takes back what a session waits for: its ops stay in the order, and its
// worker asks again.
func (c *chained) forgetSession(s *session) {
	c.waiting[s.worker] = slices.DeleteFunc(c.waiting[s.worker], func(r *request) bool { return r.s == s })
}
