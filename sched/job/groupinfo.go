package job

import (
	"context"

	"psrt/sched/place"
	"psrt/sched/replica"
)

// GroupInfo is who has a group's rows.
type GroupInfo struct {
	Group  int    `json:"group"`
	Epoch  uint64 `json:"epoch"`            // of its chain
	Chain  []int  `json:"chain"`            // servers: head, middle, tail
	Joiner *int   `json:"joiner,omitempty"` // the server that is copying it
}

// Cluster is a View with the groups.
type Cluster struct {
	View
	List []GroupInfo `json:"list"`
}

// Cluster looks at the servers and the groups; nil while the job has no shard map.
func (k *Control) Cluster(ctx context.Context) (*Cluster, error) {
	v, err := k.View(ctx)
	if err != nil {
		return nil, err
	}
	kv, err := k.Coord.Get(ctx, replica.KeyMap)
	if err != nil {
		return nil, err
	}
	m, err := place.Decode(kv.Value, uint64(kv.Revision))
	if err != nil {
		return nil, err
	}
	c := &Cluster{View: *v}
	for i, g := range m.Groups {
		info := GroupInfo{Group: i, Epoch: g.Since}
		for _, x := range g.Chain {
			info.Chain = append(info.Chain, x.Server)
		}
		if g.Joiner != nil {
			joiner := g.Joiner.Server
			info.Joiner = &joiner
		}
		c.List = append(c.List, info)
	}
	return c, nil
}
