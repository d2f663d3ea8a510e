package server

import (
	"slices"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
)

// runBytes bounds the pushes that are added before they are applied: nothing of them is
// committed before the last one is everywhere.
const runBytes = 1 << 20

// takePushes hands to the chain what sessions have for it, as far as it is here. They
// keep it in their order until it has a place in the group's. Of pushes that a turn
// has brought, small ones are made a run, which every member adds before it applies it.
func (c *chained) takePushes() {
	c.arrived = false
	if c.failed != nil {
		return
	}
	c.goOn()
	c.whole = c.whole[:0]
	for _, s := range c.l.current {
		if s == nil || s.broken || !s.open {
			continue
		}
		for _, r := range s.order {
			if r.fetch.left > 0 {
				break
			}
			c.whole = append(c.whole, r)
		}
	}
	run := 0
	var stuck *session
	for i, r := range c.whole {
		if r.s == stuck || r.s.broken {
			continue
		}
		merge := false
		if size := c.bodySize(r); i+1 < len(c.whole) && c.mayRun(r) && c.mayRun(c.whole[i+1]) {
			run += size
			merge = run+c.bodySize(c.whole[i+1]) <= runBytes
		}
		if !merge {
			run = 0
		}
		if !c.submit(r, merge) {
			stuck = r.s
		}
	}
	clear(c.whole)
	c.m.Flush() // what was to follow the last one may have had to wait
	c.beginFlow()
	c.holdsUp(stuck != nil || len(c.calls) > 0)
}

// mayRun says whether a push may be applied together with others. Rows that may lie on
// a disk are pinned until they are applied: all of a run would have to fit.
func (c *chained) mayRun(r *request) bool {
	if c.l.syncOf(r).mode.BSP() || r.Flags&psmsg.FlagTicket != 0 {
		return false
	}
	return r.Kind != psmsg.KindPush || c.l.tables[r.Table].inMemory
}

// submit gives a push to the machine; merge: the next one is to be added to it. It
// returns whether the session's next one may be looked at.
func (c *chained) submit(r *request, merge bool) bool {
	s := r.s
	if r.Kind == psmsg.KindPush && r.Flags&psmsg.FlagTicket != 0 && !c.redeem(r) {
		s.removePush(r)
		c.l.stats.stale++
		c.l.reply(r, psmsg.CodeStaleTicket, 0, 0, 0)
		return true
	}
	h := c.header(r)
	h.Merge = merge
	c.lease()
	verdict := c.m.Judge(c.m.Epoch(), &h)
	if verdict == chain.Ordered {
		if err := c.fits(r); err != nil {
			c.l.refusal = err
			c.l.refuse(r, psmsg.CodeNoMemory)
			return true
		}
		body := c.encode(r, h.Size)
		if err := c.opens(r, body); err != nil { // what is ordered, every member must be able to do
			c.l.refusal = err
			c.l.refuse(r, psmsg.CodeBadRequest)
			return true
		}
		_, verdict = c.m.Submit(c.m.Epoch(), h, body)
	}
	switch verdict {
	case chain.Ordered, chain.Pending:
		s.removePush(r)
		s.plain = max(s.plain-1, 0)
		c.wait(r)
		return true
	case chain.Duplicate:
		s.removePush(r)
		c.l.stats.duplicates++
		c.l.reply(r, psmsg.CodeDuplicate, 0, 0, c.l.refusals.of(r))
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
			c.l.reply(r, psmsg.CodeDuplicate, 0, 0, c.l.refusals.of(r))
		case c.failed == nil || len(c.m.Config().Chain) == 1:
			c.l.reply(r, res.code, 0, res.version, res.refused)
		}
	}
}
