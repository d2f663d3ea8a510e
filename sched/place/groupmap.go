package place

// MaxGroups bounds the groups of a job: a worker has a connection for each.
const MaxGroups = MaxServers

// GroupMap is the groups as a worker counts by them: group g is the only lane of
// pseudo-server g, and has its slots. It is the same in every epoch. Where a
// group's head listens is not in it; that is asked for with each connection.
func (c *Chains) GroupMap() *Map {
	n := len(c.Groups)
	m := &Map{Slots: c.Slots, slots: uint64(c.Slots), Servers: make([]Server, n), lane: make([]uint16, c.Slots),
		first: make([]int, n+1), dense: make([]uint64, n), server: make([]uint16, n)}
	for g := range n {
		m.Servers[g] = Server{ID: g, Weight: 1, Lanes: 1}
		m.first[g+1] = g + 1
		m.server[g] = uint16(g)
		m.dense[g] = uint64(g+1) * m.Servers[g].fixedWeight()
	}
	for slot := range m.lane {
		m.lane[slot] = uint16(c.GroupOf(slot))
	}
	return m
}

// Head is the process that workers ask for a group, and where it listens.
func (c *Chains) Head(group int) (Node, string) {
	s := &c.Servers[c.Index(c.Groups[group].Chain[0].Server)]
	return Node{s.ID, s.Gen}, s.Addr
}
