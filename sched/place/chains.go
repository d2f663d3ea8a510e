package place

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

const (
	MaxReplicas = 8
	// chainsVersion is of the stored form. 1: the first.
	chainsVersion = 1
)

// ErrNoData marks groups all of whose replicas are gone.
var ErrNoData = errors.New("place: no replica is left")

// Node is one server process: a server that was started again is another.
type Node struct {
	Server int
	Gen    uint64
}

// Node is the process that a server of the map is.
func (c *Chains) Node(server int) Node { return Node{server, c.Servers[c.Index(server)].Gen} }

// Member is one server's part in a group.
type Member struct {
	Server int    // ID
	Lane   int    // within the server
	Joined uint64 // epoch in which it began to catch up; a server that has left and come back is another member
}

// Group is the chain of a run of slots: the unit of order, of replication and of
// moves. A group's slots never change, so that what workers count by group (their
// sequences, their clocks) outlives every move.
type Group struct {
	// Since is the epoch in which Chain or Joiner changed last: messages about the
	// group carry it. 0 in a map that is not stored yet.
	Since  uint64
	Chain  []Member // head first, tail last; each has every acknowledged push
	Joiner *Member  // catches up behind the tail; nothing is asked of it yet
}

// Chains is the shard map of a job with replicas. It is immutable: changes make
// a new one, to be compared and swapped in the store, whose revision is then its
// epoch (Decode).
type Chains struct {
	Epoch uint64 // 0: not stored yet
	Began uint64 // the job's first epoch: who is in a chain since then began with nothing
	// Job is the latest generation among the job's first servers. A job that is started again has a greater one. 0: an older
	// program wrote the map.
	Job           uint64
	Slots         int
	Replicas      int // wanted
	AllowSameHost bool
	Servers       []Server // in ID order
	Groups        []Group
	Aim           *Aim // nil: nothing has moved yet
}

// ChainsConfig is what does not change in a job's life, but for Replicas.
type ChainsConfig struct {
	Slots         int // 0 means DefaultSlots
	Groups        int // 0 means GroupsFor the servers
	Replicas      int // 0 means 1
	AllowSameHost bool
}

// Most is how many groups each of so many servers may have to have: one more has died.
func (c ChainsConfig) Most(servers int) int {
	left := max(1, servers-1)
	return min(c.Groups, (c.Groups*max(1, c.Replicas)+left-1)/left)
}

// GroupsFor is a number of groups that lets this many servers, and some more,
// have equal shares: at least 32 for each.
func GroupsFor(servers, slots int) int {
	n := 64
	for n < 32*servers {
		n *= 2
	}
	return min(n, slots, MaxGroups)
}

// NewChains is the first map of a job. Every member has Joined = 0: it begins
// with the job, and with nothing.
func NewChains(cfg ChainsConfig, servers []Server) (*Chains, error) {
	if cfg.Slots == 0 {
		cfg.Slots = DefaultSlots
	}
	if cfg.Groups == 0 {
		cfg.Groups = GroupsFor(len(servers), cfg.Slots)
	}
	c := &Chains{Slots: cfg.Slots, Replicas: max(1, cfg.Replicas), AllowSameHost: cfg.AllowSameHost, Groups: make([]Group, max(0, cfg.Groups))}
	for _, s := range servers {
		c.Job = max(c.Job, s.Gen)
	}
	if err := c.checkShape(); err != nil {
		return nil, err
	}
	t, err := c.Target(servers)
	if err != nil {
		return nil, err
	}
	if n := t.domains(); n < t.Replicas {
		return nil, &DomainsError{t.Replicas, len(servers), n}
	}
	w := &walk{c: t, lanes: map[[2]int]int{}}
	for g := range t.Groups {
		for k := range t.Groups[g].Chain {
			m := &t.Groups[g].Chain[k]
			m.Lane = w.lane(m.Server)
		}
	}
	return t, nil
}

// DomainsError says that there are not enough hosts for the replicas that are wanted.
type DomainsError struct{ Replicas, Servers, Domains int }

func (e *DomainsError) Error() string {
	return fmt.Sprintf("place: %d replicas want as many hosts (or labelled racks), the %d servers are on %d; add hosts or deal ranks over them in turn (mpirun --map-by node, srun --distribution=cyclic), lower --replicas, or say --allow-same-host",
		e.Replicas, e.Servers, e.Domains)
}

// BadInput says that the user's input is at fault.
func (e *DomainsError) BadInput() bool { return true }

func (c *Chains) checkShape() error {
	switch {
	case c.Slots < 1 || c.Slots > MaxSlots:
		return fmt.Errorf("place: %d slots, want 1 to %d", c.Slots, MaxSlots)
	case len(c.Groups) < 1 || len(c.Groups) > c.Slots:
		return fmt.Errorf("place: %d groups of %d slots, want 1 to as many as slots", len(c.Groups), c.Slots)
	case len(c.Groups) > MaxGroups:
		return fmt.Errorf("place: %d groups, want at most %d", len(c.Groups), MaxGroups)
	case c.Replicas < 1 || c.Replicas > MaxReplicas:
		return fmt.Errorf("place: %d replicas, want 1 to %d", c.Replicas, MaxReplicas)
	}
	return nil
}

// takeServers checks servers and puts them in order.
func (c *Chains) takeServers(servers []Server) error {
	m, err := skeleton(0, max(c.Slots, len(servers)), servers)
	if err != nil {
		return err
	}
	c.Servers = m.Servers
	rack := map[string]string{}
	for _, s := range c.Servers {
		if was, ok := rack[s.Host]; ok && was != s.Rack && s.Host != "" {
			return fmt.Errorf("place: host %q is in rack %q and in rack %q (server %d)", s.Host, was, s.Rack, s.ID)
		}
		rack[s.Host] = s.Rack
	}
	return nil
}

// Index is the position of a server in Servers, -1 if it is not in the map.
func (c *Chains) Index(id int) int {
	i, ok := slices.BinarySearchFunc(c.Servers, id, func(s Server, id int) int { return cmp.Compare(s.ID, id) })
	if !ok {
		return -1
	}
	return i
}

// domain names what must not hold two replicas of a group: the labelled rack,
// else the host; servers that do not say where they run count as on one host.
func (c *Chains) domain(i int) string {
	switch s := &c.Servers[i]; {
	case c.AllowSameHost:
		return fmt.Sprint("s", s.ID)
	case s.Rack != "":
		return "r" + s.Rack
	default:
		return "h" + s.Host
	}
}

func (c *Chains) domains() int {
	seen := map[string]bool{}
	for i := range c.Servers {
		seen[c.domain(i)] = true
	}
	return len(seen)
}

// GroupOf is a slot's group: groups are runs of slots of equal length, up to one.
func (c *Chains) GroupOf(slot int) int {
	return int(((uint64(slot)+1)*uint64(len(c.Groups)) - 1) / uint64(c.Slots))
}

// SlotsOf is a group's slots.
func (c *Chains) SlotsOf(group int) Range {
	n, slots := int64(len(c.Groups)), int64(c.Slots)
	return Range{int64(group) * slots / n, int64(group+1) * slots / n}
}

// GroupOfKey is a key's group. Every uint64 is a key.
func (c *Chains) GroupOfKey(key uint64) int {
	m := Map{slots: uint64(c.Slots)}
	return c.GroupOf(m.SlotOf(key))
}

// Position is a server's place in a chain, -1 if it is not in it.
func (g *Group) Position(server int) int {
	return slices.IndexFunc(g.Chain, func(m Member) bool { return m.Server == server })
}

// Has says whether a server is in the chain or joins it.
func (g *Group) Has(server int) bool {
	return g.Position(server) >= 0 || g.Joiner != nil && g.Joiner.Server == server
}

// clone is c to be changed: groups may be replaced, their chains may not be
// written to.
func (c *Chains) clone() *Chains {
	n := *c
	n.Epoch = 0
	n.Servers, n.Groups = slices.Clone(c.Servers), slices.Clone(c.Groups)
	return &n
}

// set replaces a group's chain; it is a change even where all stays the same.
func (c *Chains) set(g int, chain []Member, joiner *Member) {
	c.Groups[g] = Group{Chain: chain, Joiner: joiner}
}

// Changed lists the groups that differ from those of the stored map that c was
// made from.
func (c *Chains) Changed() []int {
	var all []int
	for i := range c.Groups {
		if c.Groups[i].Since == 0 {
			all = append(all, i)
		}
	}
	return all
}

// Check finds what no map may be.
func (c *Chains) Check() error {
	if err := c.checkShape(); err != nil {
		return err
	}
	if err := (&Chains{Slots: c.Slots}).takeServers(c.Servers); err != nil {
		return err
	}
	for g := range c.Groups {
		if err := c.checkGroup(g); err != nil {
			return err
		}
	}
	return nil
}

func (c *Chains) checkGroup(g int) error {
	grp := &c.Groups[g]
	all := grp.Chain
	if grp.Joiner != nil {
		all = append(slices.Clone(all), *grp.Joiner)
	}
	if len(grp.Chain) == 0 || len(grp.Chain) > MaxReplicas+1 {
		return fmt.Errorf("place: group %d has a chain of %d, want 1 to %d", g, len(grp.Chain), MaxReplicas+1)
	}
	if c.Epoch > 0 && (grp.Since == 0 || grp.Since > c.Epoch) {
		return fmt.Errorf("place: group %d is of epoch %d in a map of epoch %d", g, grp.Since, c.Epoch)
	}
	for i, m := range all {
		s := c.Index(m.Server)
		switch {
		case s < 0:
			return fmt.Errorf("place: group %d is on server %d, which the map does not have", g, m.Server)
		case m.Lane < 0 || m.Lane >= c.Servers[s].Lanes:
			return fmt.Errorf("place: group %d is in lane %d of server %d, which has %d", g, m.Lane, m.Server, c.Servers[s].Lanes)
		case c.Epoch > 0 && m.Joined > c.Epoch:
			return fmt.Errorf("place: server %d joined group %d in epoch %d, the map's is %d", m.Server, g, m.Joined, c.Epoch)
		case slices.ContainsFunc(all[:i], func(o Member) bool { return o.Server == m.Server }):
			return fmt.Errorf("place: server %d is twice in group %d", m.Server, g)
		}
	}
	return nil
}
