package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"psrt/sched/clock"
	"psrt/sched/stall"
)

// laneSays is how long a lane is waited for that is asked what it waits for.
const laneSays = 500 * time.Millisecond

// Waits is what this server's lanes and its barrier wait for, since least or
// longer: for requests of one worker, or with -1 of all.
func (s *Server) Waits(ctx context.Context, worker int, least time.Duration) []stall.Wait {
	said := make([]chan []stall.Wait, len(s.lanes))
	for i, l := range s.lanes {
		said[i] = make(chan []stall.Wait, 1)
		go func() { said[i] <- s.deaf.ask(l, worker, least) }()
	}
	all := s.barrier.waits(&s.cfg, worker, time.Now(), least)
	for _, c := range said {
		select {
		case w := <-c:
			all = append(all, w...)
		case <-ctx.Done():
			return all
		}
	}
	return all
}

// deaf notes since when lanes have not said what they wait for.
type deaf struct {
	mu    sync.Mutex
	since map[*lane]time.Time
}

// ask asks a lane, which runs or has ended: then nobody waits there.
func (d *deaf) ask(l *lane, worker int, least time.Duration) []stall.Wait {
	began := time.Now()
	said := make(chan []stall.Wait, 1)
	err := l.do(laneSays, func() { said <- l.stalls(worker, time.Now(), least) })
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.since, l)
		return <-said
	}
	select {
	case <-l.gone:
		delete(d.since, l)
		return nil
	default:
	}
	since, known := d.since[l]
	if !known {
		if d.since == nil {
			d.since = map[*lane]time.Time{}
		}
		since, d.since[l] = began, began
	}
	age := time.Since(since)
	if age < least {
		return nil
	}
	return []stall.Wait{{Who: l.name(), Kind: stall.Busy, Seconds: age.Seconds(), What: "it has not come to its next request since: a disk, a large batch, or no core for it"}}
}

func (l *lane) name() string {
	if l.cfg.Chain != nil {
		return l.cfg.name()
	}
	return fmt.Sprintf("%s lane %d", l.cfg.name(), l.index)
}

// name is what people call the server: in a job with replicas ID is a group's number.
func (c *Config) name() string {
	if c.Chain != nil {
		return fmt.Sprintf("group %d at server %d", c.Chain.Group, c.Chain.Self.Server)
	}
	return fmt.Sprintf("server %d", c.ID)
}

// stalls groups what the requests in hand wait for. It runs on the lane.
func (l *lane) stalls(worker int, now time.Time, least time.Duration) (all []stall.Wait) {
	for s := range l.open {
		if worker >= 0 && s.worker != worker {
			continue
		}
		for i := range s.reqs {
			r := &s.reqs[i]
			age := now.Sub(r.began)
			if !r.busy || age < least {
				continue
			}
			for _, w := range l.why(r, now) {
				w.Who, w.Seconds = l.name(), age.Seconds()
				j := slices.IndexFunc(all, func(o stall.Wait) bool { return o.On == w.On })
				if j < 0 {
					all = append(all, w)
				} else if all[j].Seconds < w.Seconds {
					all[j] = w
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b stall.Wait) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return all
}

// why says what a request waits for that is in hand.
func (l *lane) why(r *request, now time.Time) []stall.Wait {
	is := func(list []*request) bool { return slices.Contains(list, r) }
	whose := l.cfg.nameOf(r.s.worker)
	what := fmt.Sprintf("a %s of %s at clock %d", r.Kind, whose, r.Clock)
	one := func(on string, kind stall.Kind, more string) []stall.Wait {
		return []stall.Wait{{On: on, Kind: kind, What: what + more}}
	}
	switch {
	case r.finding == reading:
		return one(l.slowDisk(), stall.Disk, "")
	case r.finding == waiting:
		return one("rows that others have pinned", stall.Memory, "; raise --mem-budget")
	case r.fetch.left > 0 && r.fetch.id != 0 && r.fetch.left == r.fetch.total:
		return one("a grant to read from "+whose, stall.Credit, "")
	case r.fetch.left > 0:
		return one(whose, stall.Completion, fmt.Sprintf(", of which %d bytes have not come; %s", r.fetch.left, l.heard(r.s.worker, now)))
	case l.chain != nil && is(l.chain.waiting[r.s.worker]):
		return one(l.chain.others(), stall.Replica, fmt.Sprintf(", ordered and not committed, one of %d%s%s", l.chain.m.LogOps(), l.chain.notLinked(now), l.chain.noStore()))
	case l.chain != nil && is(l.parked) && !l.chain.mayRead():
		return one("the lease of its group", stall.Replica, l.chain.unheard()+l.chain.noStore())
	case l.chain != nil && is(r.s.order):
		return one("a place in the group's order", stall.Replica, "")
	case is(l.parked):
		if !l.mayPull(r) {
			blocks := l.clock.BlocksWithin(r.Clock, l.syncOf(r).bound())
			if i := slices.Index(blocks, r.s.worker); i >= 0 { // asked ahead of its own push, which is what counts
				if blocks = slices.Delete(blocks, i, i+1); len(blocks) == 0 {
					return nil
				}
			}
			return l.blamed(blocks, stall.Clock, what, now)
		}
		if l.lacks(r) {
			return one(l.chain.others(), stall.Replica, fmt.Sprintf(", which has seen version %d of them elsewhere", r.Seq))
		}
		return one(whose, stall.Completion, ", which has not acknowledged earlier values")
	case l.isHeld(r):
		return l.blamed(l.clock.Missing(r.Clock), stall.Step, what, now)
	case is(r.s.order) && r.Seq > l.lastSeq[r.s.worker]+1:
		return one(whose, stall.Completion, fmt.Sprintf(", behind an earlier push that has not come; %s", l.heard(r.s.worker, now)))
	}
	return one("", stall.Busy, "")
}

func (l *lane) isHeld(r *request) bool {
	for _, t := range l.order {
		if slices.Contains(t.held, r) {
			return true
		}
	}
	return slices.Contains(l.dense.held, r)
}

// blamed are waits for workers; those of a few are told one by one.
func (l *lane) blamed(workers []int, kind stall.Kind, what string, now time.Time) (all []stall.Wait) {
	if len(workers) == 0 {
		return []stall.Wait{{Kind: stall.Step, What: what + ", whose step is whole and waits for readers of the one before"}}
	}
	workers = causes(workers, l.clock.At, l.waitsHere)
	for i, w := range workers {
		if i == maxBlamed {
			break
		}
		at := "has left"
		if l.clock.At(w) != clock.None {
			at = fmt.Sprintf("is in step %d", l.clock.At(w))
		}
		all = append(all, stall.Wait{On: l.cfg.nameOf(w), Kind: kind, What: fmt.Sprintf("%s; %s %s, %s", what, l.cfg.nameOf(w), at, l.heard(w, now))})
	}
	if n := len(workers) - maxBlamed; n > 0 {
		all[0].What += fmt.Sprintf("; and for %d more workers", n)
	}
	return all
}

const maxBlamed = 4

// causes leaves out of the workers that are waited for those that wait here themselves and
// are not the furthest behind: who is is why they have come no further.
func causes(workers []int, at func(worker int) uint64, waits func(worker int) bool) (all []int) {
	last := clock.None
	for _, w := range workers {
		last = min(last, at(w))
	}
	for _, w := range workers {
		if at(w) == last || !waits(w) {
			all = append(all, w)
		}
	}
	return all
}

// waitsHere says whether a worker has a request in hand.
func (l *lane) waitsHere(worker int) bool {
	s := l.current[worker]
	return s != nil && slices.ContainsFunc(s.reqs[:], func(r request) bool { return r.busy })
}

// slowDisk names the device that owes rows, if one is silent, so that nobody has to look
// through all of them.
func (l *lane) slowDisk() string {
	if l.storage != nil {
		if name := l.storage.disks.Silent(diskSlow); name != "" {
			return "its disk (" + name + ")"
		}
	}
	return "its disks"
}

// diskSlow is how long a device must have said nothing to be named: far longer than any
// that works takes for a row.
const diskSlow = time.Second

// others are the servers that confirm what this head orders.
func (c *chained) others() string {
	var names []string
	for _, m := range c.m.Config().Chain {
		if m.Node != c.cfg.Self {
			names = append(names, fmt.Sprintf("server %d", m.Server))
		}
	}
	if len(names) == 0 {
		return "itself"
	}
	return stall.List(names)
}

// unheard is whom the lease wants the word of.
func (c *chained) unheard() string {
	if c.cfg.Unheard != nil {
		if who := c.cfg.Unheard(); who != "" {
			return ": " + who
		}
	}
	return ": it has not heard of enough servers lately"
}

// noStore is for how long no map can change.
func (c *chained) noStore() string {
	if c.cfg.StoreAway == nil {
		return ""
	}
	since := c.cfg.StoreAway()
	if since == 0 {
		return ""
	}
	return fmt.Sprintf("; the coordinator is away since %.1f s, without which no server that is dead is taken out of its groups", since.Seconds())
}

// heard is when a worker was heard of last.
func (l *lane) heard(worker int, now time.Time) string {
	s := l.current[worker]
	if s == nil {
		return "it is not connected"
	}
	var last time.Time
	for i := range s.reqs {
		if s.reqs[i].began.After(last) {
			last = s.reqs[i].began
		}
	}
	if last.IsZero() {
		return "it has asked nothing yet"
	}
	return fmt.Sprintf("nothing was heard of it for %.1f s", now.Sub(last).Seconds())
}

// waits is a wait for those who have not come.
func (b *barrier) waits(cfg *Config, worker int, now time.Time, least time.Duration) []stall.Wait {
	b.mu.Lock()
	defer b.mu.Unlock()
	age := now.Sub(b.since)
	if len(b.inside) == 0 || worker >= 0 && b.inside[worker] == nil || age < least {
		return nil
	}
	var inside []string
	for w := range b.inside {
		inside = append(inside, cfg.nameOf(w))
	}
	slices.Sort(inside)
	return []stall.Wait{{Who: cfg.name(), On: fmt.Sprintf("%d more %s", b.all()-len(b.inside), cfg.members()), Kind: stall.Barrier,
		What: "inside are " + stall.List(inside), Seconds: age.Seconds()}}
}
