package place

import (
	"encoding/json"
	"fmt"
)

// chainsJSON is the stored form. A member is [server, lane, joined]; since and
// joined are left out (0) where they are of the revision that the write makes.
type chainsJSON struct {
	Version  int         `json:"version"`
	Epoch    uint64      `json:"epoch,omitempty"`
	Began    uint64      `json:"began,omitempty"`
	Job      uint64      `json:"job,omitempty"`
	Slots    int         `json:"slots"`
	Replicas int         `json:"replicas"`
	SameHost bool        `json:"allowSameHost,omitempty"`
	Servers  []Server    `json:"servers"`
	Groups   []groupJSON `json:"groups"`
	Aim      *Aim        `json:"aim,omitempty"`
}

type groupJSON struct {
	Since  uint64      `json:"since,omitempty"`
	Chain  [][3]uint64 `json:"chain"`
	Joiner *[3]uint64  `json:"joiner,omitempty"`
}

// MarshalJSON writes the whole map.
func (c *Chains) MarshalJSON() ([]byte, error) {
	j := chainsJSON{chainsVersion, c.Epoch, c.Began, c.Job, c.Slots, c.Replicas, c.AllowSameHost, c.Servers, make([]groupJSON, len(c.Groups)), c.Aim}
	for i, g := range c.Groups {
		j.Groups[i] = groupJSON{Since: g.Since, Chain: make([][3]uint64, len(g.Chain))}
		for k, m := range g.Chain {
			j.Groups[i].Chain[k] = m.triple()
		}
		if g.Joiner != nil {
			t := g.Joiner.triple()
			j.Groups[i].Joiner = &t
		}
	}
	return json.Marshal(j)
}

func (m Member) triple() [3]uint64 { return [3]uint64{uint64(m.Server), uint64(m.Lane), m.Joined} }

func memberOf(t [3]uint64) (Member, error) {
	const most = 1 << 53
	if t[0] > most || t[1] > MaxLanes {
		return Member{}, fmt.Errorf("place: member [%d, %d, %d] of a chain", t[0], t[1], t[2])
	}
	return Member{int(t[0]), int(t[1]), t[2]}, nil
}

// UnmarshalJSON reads and checks a map.
func (c *Chains) UnmarshalJSON(b []byte) error {
	var j chainsJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("place: %w", err)
	}
	if j.Version != chainsVersion {
		return fmt.Errorf("place: shard map of version %d, this program reads %d; use the program that wrote it, or a newer one", j.Version, chainsVersion)
	}
	n := Chains{Epoch: j.Epoch, Began: j.Began, Job: j.Job, Slots: j.Slots, Replicas: j.Replicas, AllowSameHost: j.SameHost, Groups: make([]Group, len(j.Groups)), Aim: j.Aim}
	for i, g := range j.Groups {
		n.Groups[i] = Group{Since: g.Since}
		for _, t := range g.Chain {
			m, err := memberOf(t)
			if err != nil {
				return err
			}
			n.Groups[i].Chain = append(n.Groups[i].Chain, m)
		}
		if g.Joiner != nil {
			m, err := memberOf(*g.Joiner)
			if err != nil {
				return err
			}
			n.Groups[i].Joiner = &m
		}
	}
	if err := n.takeServers(j.Servers); err != nil {
		return err
	}
	if err := n.Check(); err != nil {
		return err
	}
	*c = n
	return nil
}

// Decode is the map in a value of the store, whose revision is its epoch. What
// changed in that write is of that epoch.
func Decode(value []byte, revision uint64) (*Chains, error) {
	if revision == 0 {
		return nil, fmt.Errorf("place: a shard map at revision 0, which no store has")
	}
	var c Chains
	if err := json.Unmarshal(value, &c); err != nil {
		return nil, err
	}
	c.stamp(revision)
	return &c, c.Check()
}

func (c *Chains) stamp(revision uint64) {
	c.Epoch = revision
	if c.Began == 0 {
		c.Began = revision
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if g.Since == 0 {
			g.Since = revision
		}
		for k := range g.Chain {
			if g.Chain[k].Joined == 0 {
				g.Chain[k].Joined = revision
			}
		}
		if g.Joiner != nil && g.Joiner.Joined == 0 {
			g.Joiner.Joined = revision
		}
	}
}
