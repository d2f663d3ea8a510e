package place

import (
	"cmp"
	"fmt"
	"slices"
)

// Role is what a step gives or takes.
type Role uint8

const (
	Joins   Role = iota + 1 // To begins to catch up
	Serves                  // To has caught up: it is the tail
	Leaves                  // From is not needed any more
	Turns                   // the chain is drained, and goes on in another order; To is the head
	Hold                    // the head shall drain the chain, so that it can turn; the map stays as it is
	Forgets                 // To shall not catch up any more
	Aims                    // To is to be the head, which the map has to say before it can turn
)

func (r Role) String() string {
	return [...]string{"?", "joins", "serves", "leaves", "turns", "hold", "forgets", "aims"}[r]
}

// GroupMove is one change of one group. From and To are server IDs, -1 where
// there is none.
type GroupMove struct {
	Group    int
	From, To int
	Role     Role
}

// ChainMoves lists what differs between two maps by servers: who has a group in
// to and not in from (Joins), and the other way around (Leaves); with the same
// servers in another order, Turns.
func ChainMoves(from, to *Chains) ([]GroupMove, error) {
	if from.Slots != to.Slots || len(from.Groups) != len(to.Groups) {
		return nil, fmt.Errorf("place: maps of %d slots in %d groups and of %d in %d belong to different jobs",
			from.Slots, len(from.Groups), to.Slots, len(to.Groups))
	}
	var moves []GroupMove
	for g := range from.Groups {
		a, b := &from.Groups[g], &to.Groups[g]
		var gone []int
		for _, m := range a.Chain {
			if b.Position(m.Server) < 0 {
				gone = append(gone, m.Server)
			}
		}
		same := len(gone) == 0
		for _, m := range b.Chain {
			if a.Position(m.Server) >= 0 {
				continue
			}
			mv := GroupMove{g, -1, m.Server, Joins}
			if len(gone) > 0 {
				mv.From, gone = gone[0], gone[1:]
			}
			moves, same = append(moves, mv), false
		}
		for _, id := range gone {
			moves = append(moves, GroupMove{g, id, -1, Leaves})
		}
		if same && !slices.EqualFunc(a.Chain, b.Chain, func(x, y Member) bool { return x.Server == y.Server }) {
			moves = append(moves, GroupMove{g, a.Chain[0].Server, b.Chain[0].Server, Turns})
		}
	}
	return moves, nil
}

// Cut takes servers out of all chains: they are dead, or another process has
// their number. Groups that had nobody else are in lost, and stay as they are:
// nobody else may serve them. The servers stay in the map while a lost group
// needs them.
func (c *Chains) Cut(gone func(Server) bool) (next *Chains, lost []int) {
	next = c.clone()
	dead := map[int]bool{}
	for _, s := range c.Servers {
		dead[s.ID] = gone(s)
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		var chain []Member
		for _, m := range g.Chain {
			if !dead[m.Server] {
				chain = append(chain, m)
			}
		}
		joiner := g.Joiner
		if joiner != nil && dead[joiner.Server] {
			joiner = nil
		}
		switch {
		case len(chain) == 0:
			lost = append(lost, i)
		case len(chain) != len(g.Chain) || joiner != g.Joiner:
			next.set(i, chain, joiner)
		}
	}
	next.Servers = slices.DeleteFunc(next.Servers, func(s Server) bool {
		return dead[s.ID] && !slices.ContainsFunc(lost, func(g int) bool { return c.Groups[g].Has(s.ID) })
	})
	return next, lost
}

// Without takes one server out of one group: it has lost the group's rows, or cannot
// take those that it is sent. A server that has a group alone stays.
func (c *Chains) Without(group, server int) *Chains {
	next, g := c.clone(), c.Groups[group]
	switch k := g.Position(server); {
	case k >= 0 && len(g.Chain) > 1:
		next.set(group, slices.Delete(slices.Clone(g.Chain), k, k+1), g.Joiner)
	case g.Joiner != nil && g.Joiner.Server == server: // else all would wait for it
		next.set(group, g.Chain, nil)
	}
	return next
}

// Limits bound what is under way at a time.
type Limits struct {
	Joins      int // in all; 0 means 16
	PerServer  int // that one server sends or receives; 0 means 1: of two copies to one link each takes the other's queue for its own
	GroupsHeld int // drained for a turn at a time, those of Reports.Told among them; 0 means 4
}

func (l Limits) orDefault() Limits {
	return Limits{cmp.Or(l.Joins, 16), cmp.Or(l.PerServer, 1), cmp.Or(l.GroupsHeld, 4)}
}

// Reports are what groups' servers have said in the group's present epoch.
type Reports struct {
	Caught map[int]bool // by group: the joiner has all that is acknowledged, from now on
	Held   map[int]bool // by group: nothing is under way, nothing is let in
	Told   map[int]bool // by group: its head was told to hold
	// Failed, by group and server: a newcomer that could not take the rows, and is not to
	// try again as yet.
	Failed map[[2]int]bool
}

// Step is the next map on the way from c to target, and the moves that it makes
// (of which Hold changes no map: the shell tells the head, and Aims no group). No moves: there is
// nothing to do until something is reported. A group gives nobody up before another
// has caught up, so that it never has fewer replicas in its chain than wanted
// because of a move.
func (c *Chains) Step(target *Chains, seen Reports, lim Limits) (*Chains, []GroupMove) {
	lim = lim.orDefault()
	next := c.clone()
	next.Replicas = target.Replicas
	next.list(target.Servers)
	w := &walk{c: next, lim: lim, busy: map[int]int{}, taking: map[int]bool{}, failing: map[int]bool{}, lanes: map[[2]int]int{}, aimed: c.Aim.same(target.Aim)}
	for k := range seen.Failed {
		w.failing[k[1]] = true
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		for _, m := range members(g) {
			w.lanes[[2]int{m.Server, m.Lane}]++
		}
		if g.Joiner != nil && !seen.Caught[i] {
			w.join(g.Chain[len(g.Chain)-1].Server, g.Joiner.Server)
		}
	}
	for i := range c.Groups {
		w.group(i, &target.Groups[i], seen)
	}
	for _, join := range w.late {
		join()
	}
	w.takers()
	for _, told := range []bool{true, false} {
		for _, t := range w.turns {
			if seen.Told[t.group] == told {
				t.take()
			}
		}
	}
	for i := range c.Groups {
		if g := &next.Groups[i]; seen.Held[i] && g.Since != 0 { // nothing to turn any more: a new epoch lets it go on
			w.moves = append(w.moves, GroupMove{i, g.Chain[0].Server, g.Chain[0].Server, Turns})
			next.set(i, g.Chain, g.Joiner)
		}
	}
	next.Aim = target.Aim
	next.Servers = slices.DeleteFunc(next.Servers, func(s Server) bool {
		return target.Index(s.ID) < 0 && !slices.ContainsFunc(next.Groups, func(g Group) bool { return g.Has(s.ID) })
	})
	return next, w.moves
}

// list takes over servers, newcomers before they have anything. One that was
// started again waits until the process before it is cut out.
func (c *Chains) list(servers []Server) {
	for _, s := range servers {
		i := c.Index(s.ID)
		switch {
		case i < 0:
			c.Servers = append(c.Servers, s)
			slices.SortFunc(c.Servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
		case c.Servers[i].Gen == s.Gen || !slices.ContainsFunc(c.Groups, func(g Group) bool { return g.Has(s.ID) }):
			c.Servers[i] = s
		}
	}
}

// walk is one Step under way.
type walk struct {
	c     *Chains
	lim   Limits
	joins int
	held  int
	aimed bool        // the map says where it goes
	busy  map[int]int // by server: joins
	lanes map[[2]int]int
	moves []GroupMove

	failing map[int]bool // by server: it could not take a group of late
	late    []func()     // joins of those that fail: others go first, else they might never
	turns   []turning    // looked at when it is known who copies
	taking  map[int]bool // by server: copies are on their way to it
}

// turning is a group that is to be put in order.
type turning struct {
	group int
	take  func()
}

func (w *walk) join(from, to int) {
	w.joins++
	w.busy[from]++
	w.busy[to]++
}

func (w *walk) group(i int, want *Group, seen Reports) {
	g := w.c.Groups[i]
	wanted := func(m Member) bool { return want.Position(m.Server) >= 0 }
	tail := g.Chain[len(g.Chain)-1].Server
	switch j := g.Joiner; {
	case j != nil && !wanted(*j):
		w.c.set(i, g.Chain, nil)
		w.moves = append(w.moves, GroupMove{i, tail, j.Server, Forgets})
	case j != nil && seen.Caught[i]:
		w.c.set(i, append(slices.Clone(g.Chain), *j), nil)
		w.moves = append(w.moves, GroupMove{i, tail, j.Server, Serves})
	case j != nil: // it is on its way
	case len(g.Chain) > len(want.Chain):
		k := -1 // the head goes last
		for at, m := range g.Chain {
			if !wanted(m) {
				k = at
			}
		}
		if k < 0 {
			return
		}
		gone := GroupMove{i, g.Chain[k].Server, -1, Leaves}
		rest := slices.Delete(slices.Clone(g.Chain), k, k+1)
		if len(rest) == len(want.Chain) && !slices.ContainsFunc(rest, func(m Member) bool { return !wanted(m) }) && !sameOrder(rest, want.Chain) {
			w.turns = append(w.turns, turning{i, func() { w.turn(i, rest, want, seen, gone) }})
			return
		}
		w.moves = append(w.moves, gone)
		w.c.set(i, rest, nil)
	default:
		w.arrive(i, &g, want, seen)
	}
}

// arrive lets a newcomer join a group, or where all are there puts them in order.
func (w *walk) arrive(i int, g, want *Group, seen Reports) {
	tail, lacks := g.Chain[len(g.Chain)-1].Server, false
	for _, m := range want.Chain {
		if g.Position(m.Server) >= 0 {
			continue
		}
		if seen.Failed[[2]int{i, m.Server}] {
			lacks = true
			continue
		}
		if w.c.Index(m.Server) < 0 { // its number is still another's
			return
		}
		join := func() {
			if w.joins < w.lim.Joins && w.busy[tail] < w.lim.PerServer && w.busy[m.Server] < w.lim.PerServer {
				w.join(tail, m.Server)
				w.c.set(i, g.Chain, &Member{Server: m.Server, Lane: w.lane(m.Server)})
				w.moves = append(w.moves, GroupMove{i, tail, m.Server, Joins})
			}
		}
		if w.failing[m.Server] {
			w.late = append(w.late, join)
		} else {
			join()
		}
		return
	}
	if lacks || len(g.Chain) != len(want.Chain) || sameOrder(g.Chain, want.Chain) {
		return
	}
	chain := g.Chain
	w.turns = append(w.turns, turning{i, func() { w.turn(i, chain, want, seen) }})
}

// takers notes to whom copies are on their way. Nobody waits for one that fails: it may
// try for ever.
func (w *walk) takers() {
	for i := range w.c.Groups {
		if j := w.c.Groups[i].Joiner; j != nil && !w.failing[j.Server] {
			w.taking[j.Server] = true
		}
	}
}

// turn puts members into the order that is wanted, once their chain is drained, and makes
// other moves with it: a head that left before would have another one lead for a moment,
// and workers would go there, and away again. Who is to lead takes no copy meanwhile:
// workers would wait behind them, and are interrupted once for several groups so. One
// whose head was told to drain goes on: it lets nothing in. Before anything is drained the
// map says who is to lead, so that workers are connected there by then.
// Precondition: they are those wanted.
func (w *walk) turn(i int, members []Member, want *Group, seen Reports, with ...GroupMove) {
	head := w.c.Groups[i].Chain[0].Server
	if !seen.Held[i] {
		if !w.aimed {
			w.moves = append(w.moves, GroupMove{i, head, want.Chain[0].Server, Aims})
		} else if seen.Told[i] || w.held < w.lim.GroupsHeld && !w.taking[want.Chain[0].Server] {
			w.held++
			w.moves = append(w.moves, GroupMove{i, -1, head, Hold})
		}
		return
	}
	chain := make([]Member, len(members))
	for k, m := range want.Chain {
		chain[k] = members[slices.IndexFunc(members, func(o Member) bool { return o.Server == m.Server })]
	}
	w.c.set(i, chain, nil)
	w.moves = append(append(w.moves, with...), GroupMove{i, head, chain[0].Server, Turns})
}

func sameOrder(a, b []Member) bool {
	return slices.EqualFunc(a, b, func(a, b Member) bool { return a.Server == b.Server })
}

// lane is the least used of a server's lanes.
func (w *walk) lane(server int) int {
	best := 0
	for l := range w.c.Servers[w.c.Index(server)].Lanes {
		if w.lanes[[2]int{server, l}] < w.lanes[[2]int{server, best}] {
			best = l
		}
	}
	w.lanes[[2]int{server, best}]++
	return best
}
