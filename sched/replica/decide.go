package replica

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"psrt/sched/member"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// aloneTurns is how many turns a server waits longer that suspects more than half of
// the others: it may well be the one that is cut off.
const aloneTurns = 3

// lostAfter is how long groups have been lost before somebody is told.
const lostAfter = 3 * time.Second

// proposal is what decide wants done.
type proposal struct {
	// next is to be compared and swapped for the map adopted; nil: nothing.
	next *place.Chains
	hold []hold
	// lost are groups of which no replica lives, where that is news.
	lost []int
}

// hold is a head that is to drain a group.
type hold struct {
	psmsg.GroupEpoch
	head place.Node
}

// decide says what this process should do about the map. Only those that are in the
// map decide.
func (c *core) decide(now time.Duration) (p proposal) {
	if !c.inMap() || c.known.Epoch > c.chains.Epoch || c.over {
		return p
	}
	servers := c.servers(now)
	suspects := func(n place.Node) bool { return c.peers.Suspects(n, now) }
	dead := func(n place.Node) bool { return c.peers.Dead(n, now) }
	view := member.View{Map: c.chains, Servers: servers, Suspects: dead, Leaving: c.asksToGo,
		Waits: func(n place.Node) bool { return c.outs.Waits(n, now) }, Limits: c.limits}
	view.Reports.Failed = c.fails.Waiting(now)
	if seen := c.look(&view); c.last.seen == nil || !slices.Equal(seen, c.last.seen) {
		failed := view.Reports.Failed
		view.Reports, view.Lost = c.reports()
		view.Reports.Failed = failed
		c.last = decision{seen: seen}
		c.last.next, c.last.moves, c.last.lost = member.Decide(view)
	}
	p.lost = c.lostNow(now)
	var hold []hold
	for _, mv := range c.last.moves {
		if mv.Role == place.Hold {
			hold = append(hold, c.holdOf(mv))
		}
	}
	wants := c.last.next != nil || len(hold) > 0
	if !c.turns.Now(wants, c.chains.Epoch, c.rank(servers, suspects), c.peers.Times().Stagger, now) {
		return p
	}
	for _, h := range hold {
		c.told[h.Group] = h.Epoch
	}
	p.next, p.hold = c.last.next, hold
	return p
}

// lostNow are the groups of which no replica has lived for a while, where that is news. In a job
// that ends, and on a machine that was busy, they are none a moment later.
func (c *core) lostNow(now time.Duration) []int {
	lost := c.last.lost
	switch {
	case len(lost) <= c.lost:
		c.lost, c.lostSince = len(lost), 0
	case c.lostSince == 0:
		c.lostSince = max(now, 1)
	case now-c.lostSince >= lostAfter:
		c.lost, c.lostSince = len(lost), 0
		return lost
	}
	return nil
}

func (c *core) holdOf(mv place.GroupMove) hold {
	return hold{psmsg.GroupEpoch{Group: mv.Group, Epoch: c.chains.Groups[mv.Group].Since}, c.chains.Node(mv.To)}
}

// rank is this server's place among those that would propose.
func (c *core) rank(servers []place.Server, suspects func(place.Node) bool) int {
	var in []place.Server
	suspected := 0
	for _, s := range servers {
		i := c.chains.Index(s.ID)
		if i < 0 || c.chains.Servers[i].Gen != s.Gen {
			continue
		}
		in = append(in, s)
		if suspects(place.Node{Server: s.ID, Gen: s.Gen}) {
			suspected++
		}
	}
	rank := member.Rank(c.self, in, suspects)
	if others := len(in) - 1; others > 1 && 2*suspected > others {
		rank += aloneTurns
	}
	return rank
}

// look puts into bytes what Decide would see, so that it is asked only when that is
// new: a target takes a while to find, and mostly all is well.
func (c *core) look(v *member.View) []byte {
	b := binary.AppendUvarint(nil, c.chains.Epoch)
	bit := func(is bool) byte {
		if is {
			return 1
		}
		return 0
	}
	for _, s := range v.Servers {
		n := place.Node{Server: s.ID, Gen: s.Gen}
		b = binary.AppendUvarint(b, uint64(s.ID))
		b = binary.AppendUvarint(b, s.Gen)
		b = append(b, bit(v.Suspects(n))<<2|bit(v.Leaving(n))<<1|bit(v.Waits(n)))
		b = append(b, byte(len(s.Host)), byte(len(s.Rack)))
		b = append(append(b, s.Host...), s.Rack...)
		b = binary.AppendUvarint(b, uint64(s.Weight*65536))
		b = binary.AppendUvarint(b, uint64(s.Lanes))
	}
	for _, k := range slices.SortedFunc(maps.Keys(v.Reports.Failed), func(x, y [2]int) int { return slices.Compare(x[:], y[:]) }) {
		b = binary.AppendUvarint(binary.AppendUvarint(append(b, 0xfe), uint64(k[0])), uint64(k[1]))
	}
	b = append(b, 0xff)
	keys := slices.SortedFunc(maps.Keys(c.said), func(x, y saying) int {
		return cmp.Or(cmp.Compare(x.group, y.group), cmp.Compare(x.what, y.what), cmp.Compare(x.from.Server, y.from.Server), cmp.Compare(x.from.Gen, y.from.Gen))
	})
	for _, k := range keys {
		b = binary.AppendUvarint(b, uint64(k.group))
		b = append(b, k.what...)
		b = binary.AppendUvarint(b, uint64(k.from.Server))
		b = binary.AppendUvarint(b, k.from.Gen)
		b = binary.AppendUvarint(b, c.said[k])
	}
	return b
}

// reports sorts out what members have said of their groups' present epochs.
func (c *core) reports() (place.Reports, map[int][]place.Node) {
	r := place.Reports{Caught: map[int]bool{}, Held: map[int]bool{}, Told: map[int]bool{}}
	for g, epoch := range c.told {
		r.Told[g] = epoch == c.chains.Groups[g].Since
	}
	lost := map[int][]place.Node{}
	for k, epoch := range c.said {
		if epoch != c.chains.Groups[k.group].Since {
			continue
		}
		switch k.what {
		case psmsg.SaidCaught:
			r.Caught[k.group] = true
		case psmsg.SaidHeld:
			r.Held[k.group] = true
		case psmsg.SaidStuck:
			if j := c.chains.Groups[k.group].Joiner; j != nil && k.from == c.tail(k.group) {
				lost[k.group] = append(lost[k.group], c.chains.Node(j.Server))
			}
		case psmsg.SaidLost:
			lost[k.group] = append(lost[k.group], k.from)
		}
	}
	for _, nodes := range lost {
		slices.SortFunc(nodes, func(a, b place.Node) int { return cmp.Compare(a.Server, b.Server) })
	}
	return r, lost
}

// first is the job's first map, where it is for this process to make: it is the
// lowest of those that wait for one, and all have come.
func (c *core) first(cfg place.ChainsConfig, servers int) (*place.Chains, error) {
	if c.known != nil || len(c.regs) < servers {
		return nil, nil
	}
	var all []place.Server
	for _, id := range slices.Sorted(maps.Keys(c.regs)) {
		all = append(all, c.regs[id].Server)
	}
	if all[0].ID != c.self.Server || all[0].Gen != c.self.Gen {
		return nil, nil
	}
	return place.NewChains(cfg, all)
}
