package place

import (
	"cmp"
	"math/bits"
	"slices"
)

// Target is where a job should go when these are its servers: every server with
// its fair share of replicas, heads and tails (up to one, by weight), no two
// replicas of a group on one host or labelled rack, and no more members replaced
// than that takes. It is not to be stored: Step leads there. Where fewer hosts are
// left than replicas are wanted, groups have fewer. Members that c does not have
// are in lane 0: Step gives them one.
func (c *Chains) Target(servers []Server) (*Chains, error) {
	t := c.clone()
	if err := t.takeServers(servers); err != nil {
		return nil, err
	}
	s := newSpread(t)
	s.keep(c)
	for g := range s.in {
		for len(s.in[g]) < s.each {
			s.fill(g)
		}
	}
	s.even()
	s.roles()
	t.Aim = &Aim{For: c.aimFor(t.Servers), Groups: make([][]int, len(t.Groups))}
	for g := range t.Groups {
		ids := make([]int, len(s.in[g]))
		for k, i := range s.in[g] {
			ids[k] = t.Servers[i].ID
		}
		t.Aim.Groups[g] = ids
		t.aimed(g, c.Groups[g], ids)
	}
	return t, nil
}

func members(g *Group) []Member {
	if g.Joiner == nil {
		return g.Chain
	}
	return append(slices.Clone(g.Chain), *g.Joiner)
}

// spread is the work on a target. Servers are meant by index.
type spread struct {
	c      *Chains
	each   int   // replicas of every group
	domain []int // by server
	quota  []int // by server: its fair number of replicas
	load   []int // by server: what it has
	in     [][]int
}

func newSpread(c *Chains) *spread {
	n := len(c.Servers)
	s := &spread{c: c, domain: make([]int, n), load: make([]int, n), in: make([][]int, len(c.Groups))}
	number := map[string]int{}
	var weight []uint64 // by domain
	for i := range c.Servers {
		name := c.domain(i)
		if _, ok := number[name]; !ok {
			number[name] = len(number)
			weight = append(weight, 0)
		}
		s.domain[i] = number[name]
		weight[s.domain[i]] += c.Servers[i].fixedWeight()
	}
	s.each = min(c.Replicas, len(weight))
	s.quota = make([]int, n)
	// A domain holds a group at most once, whatever it weighs.
	for d, share := range divide(len(c.Groups)*s.each, weight, len(c.Groups)) {
		var own []int
		var w []uint64
		for i := range c.Servers {
			if s.domain[i] == d {
				own, w = append(own, i), append(w, c.Servers[i].fixedWeight())
			}
		}
		for k, q := range divide(share, w, len(c.Groups)) {
			s.quota[own[k]] = q
		}
	}
	return s
}

// divide deals total out by weight, largest remainder first, at most most to each.
// Precondition: total <= most x len(weight).
func divide(total int, weight []uint64, most int) []int {
	share := make([]int, len(weight))
	open := make([]int, len(weight))
	for i := range open {
		open[i] = i
	}
	for len(open) > 0 {
		var sum uint64
		for _, i := range open {
			sum += weight[i]
		}
		left, rest := total, map[int]uint64{}
		var full []int
		for _, i := range open {
			hi, lo := bits.Mul64(weight[i], uint64(total))
			q, r := bits.Div64(hi, lo, sum)
			share[i], rest[i] = int(q), r
			left -= int(q)
			if share[i] >= most {
				full = append(full, i)
			}
		}
		if len(full) == 0 {
			slices.SortStableFunc(open, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
			for _, i := range open[:left] {
				share[i]++
			}
			return share
		}
		for _, i := range full {
			share[i] = most
			total -= most
		}
		open = slices.DeleteFunc(open, func(i int) bool { return slices.Contains(full, i) })
	}
	return share
}

// keep takes over what the map before had and still may have.
func (s *spread) keep(was *Chains) {
	for g := range was.Groups {
		for _, m := range members(&was.Groups[g]) {
			i, old := s.c.Index(m.Server), was.Index(m.Server)
			if i >= 0 && s.c.Servers[i].Gen == was.Servers[old].Gen && s.fits(g, i, -1) {
				s.in[g] = append(s.in[g], i)
				s.load[i]++
			}
		}
	}
	for g := range s.in { // one joins already in another's place
		for len(s.in[g]) > s.each {
			worst := 0
			for k, i := range s.in[g] {
				if w := s.in[g][worst]; s.load[i]-s.quota[i] > s.load[w]-s.quota[w] {
					worst = k
				}
			}
			s.load[s.in[g][worst]]--
			s.in[g] = slices.Delete(s.in[g], worst, worst+1)
		}
	}
}

// fits says whether server i may have a replica of group g, in the place of
// server without (-1: beside all it has).
func (s *spread) fits(g, i, without int) bool {
	for _, o := range s.in[g] {
		if o != without && s.domain[o] == s.domain[i] {
			return false
		}
	}
	return true
}

// liking orders servers for a group, differently for every group.
func (s *spread) liking(g, i int) uint64 {
	return Mix(Mix(uint64(s.c.Servers[i].ID)) ^ Mix(uint64(g)+0x67726f7570)) // "group"
}

// fill gives a group one more replica.
func (s *spread) fill(g int) {
	best, bestScore := -1, uint64(0)
	var may []int
	for i := range s.quota {
		if !s.fits(g, i, -1) {
			continue
		}
		may = append(may, i)
		if room := s.quota[i] - s.load[i]; room > 0 {
			// At random, in proportion to the room.
			if score, _ := bits.Mul64(s.liking(g, i), uint64(room)); best < 0 || score > bestScore {
				best, bestScore = i, score
			}
		}
	}
	if best < 0 {
		best = s.makeRoom(may)
	}
	s.in[g] = append(s.in[g], best)
	s.load[best]++
}

// even takes from those above their share what others lack.
func (s *spread) even() {
	for i := range s.quota {
		for s.load[i] > s.quota[i] && s.makeRoom([]int{i}) >= 0 {
		}
	}
}

// makeRoom moves replicas, as few as possible, so that one of the servers in from
// has one less; it returns which. The path goes from server to server, each giving
// the next a replica, until one has room: a breadth-first search for an augmenting
// path, which there is as long as somebody has room for what fits.
func (s *spread) makeRoom(from []int) int {
	type way struct{ by, group int } // by gives group to the server
	parent := make([]way, len(s.quota))
	seen := make([]bool, len(s.quota))
	for _, i := range from {
		seen[i], parent[i] = true, way{-1, -1}
	}
	has := make([][]int, len(s.quota))
	for g, in := range s.in {
		for _, i := range in {
			has[i] = append(has[i], g)
		}
	}
	for queue := slices.Clone(from); len(queue) > 0; {
		i := queue[0]
		queue = queue[1:]
		best, bestWay, bestScore := -1, way{}, uint64(0)
		for _, g := range has[i] {
			for y := range s.quota {
				if seen[y] && y != best || y == i || slices.Contains(s.in[g], y) || !s.fits(g, y, i) {
					continue
				}
				room := s.quota[y] - s.load[y]
				if score, _ := bits.Mul64(s.liking(g, y), uint64(max(room, 0))); room > 0 && (best < 0 || score > bestScore) {
					best, bestWay, bestScore = y, way{i, g}, score
				} else if room <= 0 {
					seen[y], parent[y] = true, way{i, g}
					queue = append(queue, y)
				}
			}
		}
		if best < 0 {
			continue
		}
		seen[best], parent[best] = true, bestWay
		for y := best; ; {
			w := parent[y]
			if w.by < 0 {
				return y
			}
			s.in[w.group][slices.Index(s.in[w.group], w.by)] = y
			s.load[y]++
			s.load[w.by]--
			y = w.by
		}
	}
	return -1
}
