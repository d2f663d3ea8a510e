package place

import (
	"fmt"
	"hash/fnv"
	"slices"
)

// Aim is where a map's groups are on their way to. It stands in the map, so that all
// servers go the same way to its end: a target that was found again from halfway is
// another one, as good and further away.
type Aim struct {
	// For is of what it was made for: the servers, and what holds for all of them.
	For uint64 `json:"for"`
	// Groups are the IDs of the servers in each group's chain, head first.
	Groups [][]int `json:"groups"`
}

// aimFor is the For of an aim for these servers.
func (c *Chains) aimFor(servers []Server) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, c.Replicas, c.AllowSameHost, len(c.Groups))
	for i := range servers {
		s := &servers[i]
		fmt.Fprintf(h, "%d %d %d %q %q\n", s.ID, s.Gen, s.fixedWeight(), s.Host, s.Rack)
	}
	return h.Sum64()
}

func (a *Aim) same(b *Aim) bool {
	return a != nil && b != nil && a.For == b.For && slices.EqualFunc(a.Groups, b.Groups, slices.Equal)
}

// Goal is the Target that c is on its way to already, if that is for these servers.
func (c *Chains) Goal(servers []Server) (*Chains, error) {
	t := c.clone()
	if err := t.takeServers(servers); err != nil {
		return nil, err
	}
	if c.Aim == nil || c.Aim.For != c.aimFor(t.Servers) || len(c.Aim.Groups) != len(c.Groups) {
		return c.Target(servers)
	}
	for g, ids := range c.Aim.Groups {
		if t.aimed(g, c.Groups[g], ids); t.checkGroup(g) != nil { // somebody else's
			return c.Target(servers)
		}
	}
	return t, nil
}

// aimed gives a group of a target these servers. Members that the map before has are those.
func (c *Chains) aimed(g int, was Group, ids []int) {
	chain := make([]Member, len(ids))
	for k, id := range ids {
		chain[k] = Member{Server: id}
		for _, m := range members(&was) {
			if m.Server == id {
				chain[k] = m
			}
		}
	}
	c.set(g, chain, nil)
}

// Heir is who is to lead a group instead of its head, ok if it has begun to catch up at
// least: it takes connections for the group.
func (c *Chains) Heir(group int) (n Node, addr string, ok bool) {
	if c.Aim == nil || group >= len(c.Aim.Groups) || len(c.Aim.Groups[group]) == 0 {
		return n, "", false
	}
	id, g := c.Aim.Groups[group][0], &c.Groups[group]
	i := c.Index(id)
	if i < 0 || !g.Has(id) || g.Chain[0].Server == id {
		return n, "", false
	}
	return c.Node(id), c.Servers[i].Addr, true
}

// Heirs are the groups that have one. What still copies comes last: others get their
// heads before.
func (c *Chains) Heirs() (groups []int) {
	for g := range c.Groups {
		if _, _, ok := c.Heir(g); ok {
			groups = append(groups, g)
		}
	}
	copies := func(g int) int {
		if c.Groups[g].Joiner != nil {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(groups, func(x, y int) int { return copies(x) - copies(y) })
	return groups
}
