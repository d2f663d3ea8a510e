package replica

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"psrt/sched/chain"
	"psrt/sched/member"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// maxSaid bounds what is remembered of members' words: more than a map can have
// joiners, held groups and lost members at a time.
const maxSaid = 1 << 14

// core is what a member knows of the others, without clock, goroutine or
// connection. Times are since any one moment.
type core struct {
	self   place.Node
	peers  *member.Peers
	turns  member.Turns
	outs   *member.Outs
	fails  *member.Fails
	limits place.Limits

	chains  *place.Chains // adopted; nil before the first
	known   *place.Chains // the newest that was seen
	regs    map[int]Registration
	leaving map[int]uint64 // by number: of the process that was asked to go, 0: whoever has it

	said      map[saying]uint64 // what and who: the group's epoch
	told      map[int]uint64    // by group: the epoch in which this process had its head hold
	early     []report          // of epochs that are not named yet
	fences    []fence
	unnamed   map[place.Node]time.Duration // since when neither map nor registration has it
	last      decision
	lost      int           // groups of which no replica lives, as was told
	lostSince time.Duration // of more than that
	over      bool          // the job has ended: servers that end are not missed
}

// saying is what a member said of a group.
type saying struct {
	group int
	what  string
	from  place.Node
}

// report is what a group's machine reports.
type report struct {
	group int
	chain.Report
}

// fence is a group that waits for those cut out to stop serving.
type fence struct {
	psmsg.GroupEpoch
	whole uint64 // the map's epoch
	until time.Duration
	nodes []place.Node
}

// decision is what was decided last, and on what.
type decision struct {
	seen  []byte
	next  *place.Chains
	moves []place.GroupMove
	lost  []int
}

func newCore(self place.Node, times member.Times, limits place.Limits) *core {
	p := member.NewPeers(self, times)
	return &core{self: self, peers: p, outs: member.NewOuts(p.Times().Rejoin), fails: member.NewFails(p.Times().Rejoin), limits: limits,
		regs: map[int]Registration{}, leaving: map[int]uint64{}, said: map[saying]uint64{}, told: map[int]uint64{}, unnamed: map[place.Node]time.Duration{}}
}

// nodes are all other servers that get beats: those of the map, and those that are
// registered, newcomers and those that were cut out, who must prove that they answer.
func (c *core) nodes() (all []place.Node) {
	add := func(n place.Node) {
		if n != c.self && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	if c.chains != nil {
		for _, s := range c.chains.Servers {
			add(place.Node{Server: s.ID, Gen: s.Gen})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.regs)) {
		add(c.regs[id].node())
	}
	return all
}

// addr is where a process listens.
func (c *core) addr(n place.Node) (string, bool) {
	if r, ok := c.regs[n.Server]; ok && r.Gen == n.Gen {
		return r.Addr, true
	}
	for _, m := range []*place.Chains{c.known, c.chains} {
		if m == nil {
			continue
		}
		if i := m.Index(n.Server); i >= 0 && m.Servers[i].Gen == n.Gen {
			return m.Servers[i].Addr, true
		}
	}
	return "", false
}

// woke notes how late this process looks again: it should each tickEvery.
func (c *core) woke(last, now time.Duration) {
	if late := now - last - tickEvery; late > tickEvery {
		c.peers.Late(late)
	}
}

// beats are the questions that are due.
func (c *core) beats(now time.Duration) []member.Beat {
	nodes := c.nodes()
	c.forget(nodes, now)
	return c.peers.Tick(nodes, now)
}

// forget drops nodes that nobody speaks of any more. Not at once: until what they
// were answered last is a lease's length old, a fence may ask for it.
func (c *core) forget(nodes []place.Node, now time.Duration) {
	for n, since := range c.unnamed {
		if slices.Contains(nodes, n) {
			delete(c.unnamed, n)
		} else if now-since > 4*c.peers.Times().Lease {
			delete(c.unnamed, n)
		}
	}
	c.peers.Forget(func(n place.Node) bool {
		if slices.Contains(nodes, n) {
			return true
		}
		if _, ok := c.unnamed[n]; !ok {
			c.unnamed[n] = now
		}
		return now-c.unnamed[n] <= 4*c.peers.Times().Lease
	})
}

// asked answers a beat. It is the moment from which the other may be sure, for a
// lease's length, that nothing newer than the epoch in the answer is served here.
func (c *core) asked(b psmsg.BeatRequest, now time.Duration) (reply psmsg.BeatReply, newer bool) {
	a, _, newer := c.peers.Step(member.Beat{From: b.From, To: b.To, Epoch: b.Epoch}, now)
	c.hear(b.From, b.Said)
	c.over = c.over || b.Over
	return psmsg.BeatReply{Epoch: a.Epoch, Said: c.says()}, newer
}

// answered takes the answer to a beat.
func (c *core) answered(asked member.Beat, r psmsg.BeatReply, now time.Duration) (newer bool) {
	_, _, newer = c.peers.Step(member.Beat{From: asked.To, To: c.self, Answer: true, Asked: asked.Asked, Epoch: r.Epoch}, now)
	c.hear(asked.To, r.Said)
	return newer
}

// hear notes what a member says. Of an epoch that is not adopted here yet, too.
func (c *core) hear(from place.Node, said []psmsg.Said) {
	for _, s := range said {
		if c.chains == nil || s.Group < 0 || s.Group >= len(c.chains.Groups) || s.Epoch < c.chains.Groups[s.Group].Since {
			continue
		}
		switch s.What {
		case psmsg.SaidCaught, psmsg.SaidHeld, psmsg.SaidStuck, psmsg.SaidLost:
			if k := (saying{s.Group, s.What, from}); len(c.said) < maxSaid || c.said[k] != 0 {
				c.said[k] = max(c.said[k], s.Epoch)
			}
		}
	}
}

// says is what this process has to say of its groups in their present epochs.
func (c *core) says() (all []psmsg.Said) {
	for k, epoch := range c.said {
		if k.from == c.self {
			all = append(all, psmsg.Said{Group: k.group, Epoch: epoch, What: k.what})
		}
	}
	return all
}

// learn takes note of a map, and says whether it is newer than all before.
func (c *core) learn(m *place.Chains) bool {
	if c.known != nil && m.Epoch <= c.known.Epoch {
		return false
	}
	c.known = m
	return true
}

// adopt names a map's epoch from now on. All groups' servers have adopted it.
func (c *core) adopt(m *place.Chains, now time.Duration) {
	c.outs.Adopt(c.chains, m, now)
	c.fails.Adopt(c.chains, m, func(g int, n place.Node) bool { return c.lacks(g, n, m) }, now)
	c.chains = m
	c.peers.Adopt(m.Epoch)
	maps.DeleteFunc(c.told, func(g int, epoch uint64) bool { return epoch < m.Groups[g].Since })
	maps.DeleteFunc(c.said, func(k saying, epoch uint64) bool { return epoch < m.Groups[k.group].Since })
	c.fences = slices.DeleteFunc(c.fences, func(f fence) bool { return f.Epoch < m.Groups[f.Group].Since })
	early := c.early
	c.early = nil
	for _, r := range early {
		c.report(r, now)
	}
}

// report takes what a group's machine reports. wants: others have a newer map.
func (c *core) report(r report, now time.Duration) (wants bool) {
	if c.chains == nil || r.Epoch > c.chains.Epoch {
		if r.Kind == chain.NeedMap {
			return true
		}
		if r.Kind == chain.Fence || len(c.early) < maxSaid { // a fence is asked for once
			c.early = append(c.early, r)
		}
		return false
	}
	if r.group < 0 || r.group >= len(c.chains.Groups) || r.Epoch < c.chains.Groups[r.group].Since {
		return false
	}
	what := ""
	switch r.Kind {
	case chain.Fence:
		// After Peers.Adopt: what this process answers from then on confirms nothing older.
		whole := c.chains.Epoch
		c.fences = append(c.fences, fence{psmsg.GroupEpoch{Group: r.group, Epoch: r.Epoch}, whole, c.peers.Released(r.Nodes, whole, now), r.Nodes})
	case chain.Caught:
		what = psmsg.SaidCaught
	case chain.Held:
		what = psmsg.SaidHeld
	case chain.Stuck:
		what = psmsg.SaidStuck
	case chain.LostState:
		what = psmsg.SaidLost
	}
	if what != "" {
		c.hear(c.self, []psmsg.Said{{Group: r.group, Epoch: r.Epoch, What: what}})
	}
	return false
}

// due are the fences that have ended.
func (c *core) due(now time.Duration) (ended []psmsg.GroupEpoch) {
	c.fences = slices.DeleteFunc(c.fences, func(f fence) bool {
		over := now >= f.until || c.peers.Reached(f.nodes, f.whole)
		if over {
			ended = append(ended, f.GroupEpoch)
		}
		return over
	})
	return ended
}

// has says whether this process has a part in a group.
func (c *core) has(m *place.Chains, group int) bool {
	i := m.Index(c.self.Server)
	return i >= 0 && m.Servers[i].Gen == c.self.Gen && m.Groups[group].Has(c.self.Server)
}

// lacks says whether a server that is not in the next map's group has not got its rows:
// it has said so, or it was a joiner and is let go alive. Why that was, the others may
// not have heard; those that want it no more there do not mind the pause.
func (c *core) lacks(group int, n place.Node, next *place.Chains) bool {
	g := &c.chains.Groups[group]
	if g.Joiner != nil && c.chains.Node(g.Joiner.Server) == n {
		return next.Index(n.Server) >= 0
	}
	return c.said[saying{group, psmsg.SaidLost, n}] >= max(1, g.Since)
}

// tail is who answers for what a joiner has.
func (c *core) tail(group int) place.Node {
	chain := c.chains.Groups[group].Chain
	return c.chains.Node(chain[len(chain)-1].Server)
}

// heads says whether it is the head of a group.
func (c *core) heads(m *place.Chains, group int) bool {
	return c.has(m, group) && m.Groups[group].Chain[0].Server == c.self.Server
}

// shows says whether it is in the chain of a group, so that readers may ask it.
func (c *core) shows(m *place.Chains, group int) bool {
	return c.has(m, group) && m.Groups[group].Position(c.self.Server) >= 0
}

// inMap says whether the map adopted lists this process.
func (c *core) inMap() bool {
	i := -1
	if c.chains != nil {
		i = c.chains.Index(c.self.Server)
	}
	return i >= 0 && c.chains.Servers[i].Gen == c.self.Gen
}

// asksToGo says whether a process was asked to go.
func (c *core) asksToGo(n place.Node) bool {
	gen, ok := c.leaving[n.Server]
	return ok && (gen == 0 || gen == n.Gen)
}

// gone says that this process was asked to go, and the map has nothing for it.
func (c *core) gone() bool {
	return c.chains != nil && c.asksToGo(c.self) && !c.inMap() && (c.known == c.chains)
}

// servers are those that a map may have: registered, or in the map and answering. A
// registration may have lapsed while the store was away, and is put again.
func (c *core) servers(now time.Duration) (all []place.Server) {
	for _, r := range c.regs {
		all = append(all, r.Server)
	}
	for _, s := range c.chains.Servers {
		_, known := c.regs[s.ID]
		if n := (place.Node{Server: s.ID, Gen: s.Gen}); !known && !c.peers.Dead(n, now) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b place.Server) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
