package member

import (
	"cmp"
	"slices"
	"time"

	"psrt/sched/place"
)

// View is what one server knows when it decides.
type View struct {
	Map      *place.Chains  // as stored, with its epoch
	Servers  []place.Server // that are registered, with their present Gen, in ID order
	Suspects func(Node) bool
	Leaving  func(Node) bool // asked to go: alive, and to be emptied; may be nil
	Waits    func(Node) bool // was cut out, and is not taken in again as yet; may be nil
	Lost     map[int][]Node  // by group: members that have said they lack its rows, in its epoch
	Reports  place.Reports
	Limits   place.Limits
}

// Decide is the map that should replace v.Map in the store, if the store still has
// that, and why; nil where all is well or under way. hold lists heads to be drained.
// It is a pure function: servers with equal views propose equal maps.
func Decide(v View) (next *place.Chains, moves []place.GroupMove, lost []int) {
	alive := func(s place.Server) bool {
		i, ok := slices.BinarySearchFunc(v.Servers, s.ID, func(s place.Server, id int) int { return cmp.Compare(s.ID, id) })
		return ok && v.Servers[i].Gen == s.Gen && !v.Suspects(Node{Server: s.ID, Gen: s.Gen})
	}
	whole := v.Map
	for g, nodes := range v.Lost {
		for _, n := range nodes {
			if i := v.Map.Index(n.Server); i >= 0 && v.Map.Servers[i].Gen == n.Gen {
				whole = whole.Without(g, n.Server)
			}
		}
	}
	// After that: who is silent has its rows, and who lacks them must not be what is left.
	next, lost = whole.Cut(func(s place.Server) bool { return !alive(s) })
	if len(next.Changed()) > 0 {
		return next, nil, lost
	}
	servers := v.usable(alive)
	if len(servers) == 0 {
		return nil, nil, lost
	}
	target, err := v.Map.Goal(servers)
	if err != nil { // servers that no map may have; the ones there go on
		return nil, nil, lost
	}
	next, moves = v.Map.Step(target, v.Reports, v.Limits)
	aims := func(m place.GroupMove) bool { return m.Role == place.Aims }
	if len(next.Changed()) == 0 && !slices.ContainsFunc(moves, aims) {
		next = nil
	}
	return next, moves, lost
}

// usable are the servers that groups may lie on. Who is asked to go stays as long as
// others have to wait without whom there would be too few for all replicas: its going
// must not make a chain shorter.
func (v View) usable(alive func(place.Server) bool) (servers []place.Server) {
	var going []place.Server
	waiting := false
	for _, s := range v.Servers {
		n := Node{Server: s.ID, Gen: s.Gen}
		i := v.Map.Index(s.ID)
		in := i >= 0 && v.Map.Servers[i].Gen == s.Gen
		switch {
		case !alive(s):
		case v.Leaving != nil && v.Leaving(n):
			if in {
				going = append(going, s)
			}
		case !in && v.Waits != nil && v.Waits(n):
			waiting = true
		default:
			servers = append(servers, s)
		}
	}
	if waiting && len(servers) < v.Map.Replicas {
		servers = append(servers, going...)
		slices.SortFunc(servers, func(a, b place.Server) int { return cmp.Compare(a.ID, b.ID) })
	}
	return servers
}

// Turns spaces the proposals of servers that want the same, so that the first
// seldom meet a conflict, and yet any of them would do: the lowest of those that
// are not suspected goes first, each other Stagger later.
type Turns struct {
	epoch uint64
	since time.Duration
	wants bool
}

// Now says whether to propose. wants says that there is something; epoch is the
// map's.
func (t *Turns) Now(wants bool, epoch uint64, rank int, stagger, now time.Duration) bool {
	if !wants || epoch != t.epoch || !t.wants {
		t.wants, t.epoch, t.since = wants, epoch, now
	}
	return wants && now-t.since >= time.Duration(rank)*stagger
}

// Rank is a server's place among the registered that are not suspected.
func Rank(self Node, servers []place.Server, suspects func(Node) bool) (rank int) {
	for _, s := range servers {
		if n := (Node{Server: s.ID, Gen: s.Gen}); n != self && s.ID < self.Server && !suspects(n) {
			rank++
		}
	}
	return rank
}

// Outs remembers who was cut out, so that a server with a bad link is not taken in
// and cut out for ever: each time it waits twice as long, up to 32 times Rejoin.
type Outs struct {
	rejoin time.Duration
	out    map[Node]*outOf
}

type outOf struct {
	until time.Duration
	pause time.Duration
}

// NewOuts remembers nobody.
func NewOuts(rejoin time.Duration) *Outs { return &Outs{rejoin, map[Node]*outOf{}} }

// Adopt compares two maps in a row.
func (o *Outs) Adopt(before, after *place.Chains, now time.Duration) {
	if before == nil {
		return
	}
	for _, s := range before.Servers {
		n := Node{Server: s.ID, Gen: s.Gen}
		if i := after.Index(s.ID); i >= 0 && after.Servers[i].Gen == s.Gen {
			continue
		}
		w := o.out[n]
		if w == nil {
			w = &outOf{pause: o.rejoin / 2}
			o.out[n] = w
		}
		w.pause = min(2*w.pause, 32*o.rejoin)
		w.until = now + w.pause
	}
}

// Waits says whether a server is to be left out as yet.
func (o *Outs) Waits(n Node, now time.Duration) bool {
	w := o.out[n]
	return w != nil && now < w.until
}
