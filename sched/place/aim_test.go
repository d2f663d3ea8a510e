package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// TestGoalIsKept walks to where servers that come and go lead, and asks again at each step
// where that is, as servers do: it is always the same, so heads change once at most, nobody
// catches up who was let go on the way, and workers are told of each new head before its
// group is drained.
func TestGoalIsKept(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 11))
	for range 60 {
		replicas := 1 + r.IntN(3)
		c := chains(t, ChainsConfig{Replicas: replicas, Slots: 512, Groups: 12 + r.IntN(40)}, apart(replicas+2+r.IntN(4)))
		servers := slices.Clone(c.Servers)
		for range 3 {
			if r.IntN(3) == 0 && len(servers) > replicas+1 {
				i := r.IntN(len(servers))
				servers = slices.Delete(slices.Clone(servers), i, i+1)
			} else {
				id := 100 + r.IntN(1<<20)
				servers = append(slices.Clone(servers), Server{ID: id, Lanes: 1, Weight: 1, Host: fmt.Sprint("new", id)})
			}
			c = keepTo(t, r, c, servers)
		}
	}
}

func keepTo(t *testing.T, r *rand.Rand, c *Chains, servers []Server) *Chains {
	t.Helper()
	want, err := c.Target(servers)
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(err)
	changes, gone := make([]int, len(c.Groups)), map[[2]int]bool{}
	seen := Reports{}
	for steps := 0; ; steps++ {
		if steps > 2000 {
			t.Fatal("the goal is not reached")
		}
		goal, err := c.Goal(servers)
		must(err)
		if !goal.Aim.same(want.Aim) {
			t.Fatalf("halfway the goal is %v, it was %v", goal.Aim, want.Aim)
		}
		for g := range goal.Groups {
			if !sameOrder(goal.Groups[g].Chain, want.Groups[g].Chain) {
				t.Fatalf("group %d is to be %v, its aim is %v", g, goal.Groups[g].Chain, goal.Aim.Groups[g])
			}
		}
		next, moves := c.Step(goal, seen, Limits{GroupsHeld: 1 + r.IntN(4)})
		aims := false
		for _, m := range moves {
			switch aims = aims || m.Role == Aims; m.Role {
			case Leaves:
				gone[[2]int{m.Group, m.From}] = true
			case Joins:
				if gone[[2]int{m.Group, m.To}] {
					t.Fatalf("server %d left group %d and joins it again on the way to %v", m.To, m.Group, want.Aim.Groups[m.Group])
				}
			case Hold:
				if heir, _, ok := c.Heir(m.Group); want.Groups[m.Group].Chain[0].Server != m.To && (!ok || heir.Server != want.Groups[m.Group].Chain[0].Server) {
					t.Fatalf("group %d is drained for server %d, the map has %v (%v)", m.Group, want.Groups[m.Group].Chain[0].Server, heir, ok)
				}
			}
		}
		if len(moves) == 0 && len(next.Changed()) == 0 && !slices.ContainsFunc(c.Groups, func(g Group) bool { return g.Joiner != nil }) {
			break
		}
		mustFollow(t, c, next, seen)
		for g := range c.Groups {
			if next.Groups[g].Chain[0].Server != c.Groups[g].Chain[0].Server {
				changes[g]++
			}
		}
		if aims || len(next.Changed()) > 0 {
			c = stored(t, next, c.Epoch+1)
			seen = Reports{}
		}
		if seen.Held == nil {
			seen = Reports{Caught: map[int]bool{}, Held: map[int]bool{}, Told: map[int]bool{}}
		}
		for g := range c.Groups {
			seen.Caught[g] = c.Groups[g].Joiner != nil && (seen.Caught[g] || r.IntN(2) == 0)
		}
		for _, m := range moves {
			if m.Role == Hold {
				seen.Told[m.Group] = true
			}
		}
		for g := range seen.Told {
			seen.Held[g] = seen.Held[g] || r.IntN(2) == 0
		}
	}
	for g, n := range changes {
		if n > 1 {
			t.Errorf("the head of group %d changed %d times on its way to %v", g, n, want.Aim.Groups[g])
		}
	}
	if len(c.Heirs()) > 0 {
		t.Errorf("all are there, and groups %v are to be led by others", c.Heirs())
	}
	return c
}

// An aim for other servers, or one that is damaged, is none.
func TestAimsThatAreNone(t *testing.T) {
	c := chains(t, ChainsConfig{Replicas: 2, Slots: 64, Groups: 12}, apart(3))
	servers := append(slices.Clone(c.Servers), Server{ID: 9, Lanes: 1, Weight: 1, Host: "new"})
	want, err := c.Target(servers)
	if err != nil {
		t.Fatal(err)
	}
	next, _ := c.Step(want, Reports{}, Limits{})
	c = stored(t, next, 2)
	for name, x := range map[string]struct {
		damage  func(a *Aim)
		servers func(s []Server)
		kept    bool
	}{
		"as it is":          {kept: true},
		"other groups":      {damage: func(a *Aim) { a.Groups = a.Groups[1:] }},
		"an unknown server": {damage: func(a *Aim) { a.Groups[3] = []int{1, 77} }},
		"one twice":         {damage: func(a *Aim) { a.Groups[3] = []int{1, 1} }},
		"nobody":            {damage: func(a *Aim) { a.Groups[3] = nil }},
		"for others":        {damage: func(a *Aim) { a.For++ }},
		"another process":   {servers: func(s []Server) { s[2].Gen++ }},
		"another weight":    {servers: func(s []Server) { s[2].Weight = 2 }},
		"another host":      {servers: func(s []Server) { s[2].Host = "other" }},
		"another rack":      {servers: func(s []Server) { s[2].Rack = "other" }},
	} {
		t.Run(name, func(t *testing.T) {
			m, list := stored(t, c, 3), slices.Clone(servers)
			if x.damage != nil {
				x.damage(m.Aim)
			}
			if x.servers != nil {
				x.servers(list)
			}
			got, err := m.Goal(list)
			if err != nil {
				t.Fatal(err)
			}
			fresh, err := m.Target(list)
			if err != nil {
				t.Fatal(err)
			}
			if x.kept && !got.Aim.same(want.Aim) || !x.kept && !got.Aim.same(fresh.Aim) {
				t.Errorf("the goal is %v, the one before %v, a new one %v", got.Aim, want.Aim, fresh.Aim)
			}
			for g := range m.Groups {
				if n, _, ok := m.Heir(g); ok && !m.Groups[g].Has(n.Server) {
					t.Errorf("group %d is to be led by %v, which is not in it", g, n)
				}
			}
		})
	}
}
