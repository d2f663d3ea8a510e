package replica

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// State is what this server knows of the cluster.
func (m *Member) State() psmsg.MembersReply {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.core == nil {
		return psmsg.MembersReply{Self: place.Node{Server: m.cfg.ID}}
	}
	now := m.now()
	r := m.core.state(now)
	r.QueuePairs, r.QueuePairsMost = m.pairs, m.cfg.QueuePairs
	if m.away != nil {
		r.StoreAway, r.StoreAwaySince = m.away.Error(), time.Since(m.awaySince).Seconds()
	}
	for _, g := range slices.Sorted(maps.Keys(m.seats)) {
		r.Groups = append(r.Groups, m.groupState(m.seats[g], now))
	}
	return r
}

func (m *Member) groupState(s *seat, now time.Duration) psmsg.MemberGroup {
	g := psmsg.MemberGroup{Group: s.group, Epoch: s.cfg.Epoch, Role: "joins", Opening: !s.ready}
	if d := time.Until(s.until); d > 0 {
		g.LeaseSeconds = d.Seconds()
	}
	last := len(s.cfg.Chain) - 1
	for i, member := range s.cfg.Chain {
		g.Chain = append(g.Chain, member.Server)
		if member.Node != m.core.self {
			continue
		}
		switch {
		case last == 0:
			g.Role = "only"
		case i == 0:
			g.Role = "head"
		case i == last:
			g.Role = "tail"
		default:
			g.Role = "middle"
		}
	}
	if j := s.cfg.Joiner; j != nil {
		g.Joiner = &j.Server
	}
	for _, f := range m.core.fences {
		if f.Group == s.group {
			g.FenceSeconds = max(g.FenceSeconds, (f.until - now).Seconds())
		}
	}
	if k, ok := s.server.(interface{ ChainStats() psmsg.ChainStats }); ok {
		stats := k.ChainStats()
		g.Stats = &stats
	}
	return g
}

// state is the core's part of the view.
func (c *core) state(now time.Duration) psmsg.MembersReply {
	r := psmsg.MembersReply{Self: c.self}
	all := map[place.Node]*psmsg.MemberServer{}
	get := func(s place.Server) *psmsg.MemberServer {
		n := place.Node{Server: s.ID, Gen: s.Gen}
		if all[n] == nil {
			all[n] = &psmsg.MemberServer{Server: s, Suspected: c.peers.Suspects(n, now), Waits: c.outs.Waits(n, now), Leaving: c.asksToGo(n), AnswerSeconds: -1}
			asked, epoch, ok := c.peers.Heard(n)
			if ok {
				all[n].AnswerSeconds = (now - asked).Seconds()
			}
			all[n].Epoch = epoch
		}
		return all[n]
	}
	if c.known != nil {
		r.Known = c.known.Epoch
	}
	if m := c.chains; m != nil {
		r.Epoch, r.Replicas = m.Epoch, m.Replicas
		for _, s := range m.Servers {
			get(s).InMap = true
		}
		for i := range m.Groups {
			chain := m.Groups[i].Chain
			if len(chain) < m.Replicas {
				r.Short++
			}
			for k, member := range chain {
				s := get(m.Servers[m.Index(member.Server)])
				s.Groups++
				if k == 0 {
					s.Heads++
				}
				if k == len(chain)-1 {
					s.Tails++
				}
			}
		}
	}
	for _, reg := range c.regs {
		get(reg.Server).Registered = true
	}
	if own := all[c.self]; own != nil {
		own.AnswerSeconds, own.Epoch = 0, r.Epoch
	}
	for _, s := range all {
		r.Servers = append(r.Servers, *s)
	}
	slices.SortFunc(r.Servers, func(a, b psmsg.MemberServer) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Gen, b.Gen)) })
	return r
}
