package place

import (
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// TestStepsLeadToTheTarget walks random changes, with servers that die on the
// way and newcomers that cannot take the rows at first, and checks each map on the way: nobody who has not caught up is relied on,
// no chain is shorter than wanted for the sake of a move, survivors keep their
// order unless drained, and limits hold.
func TestStepsLeadToTheTarget(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 6))
	for range 12 {
		replicas := 1 + r.IntN(3)
		c := chains(t, ChainsConfig{Replicas: replicas, Slots: 512, Groups: 32 + r.IntN(64)}, apart(replicas+1+r.IntN(6)))
		servers, lim := slices.Clone(c.Servers), Limits{Joins: 1 + r.IntN(12), PerServer: 1 + r.IntN(3), GroupsHeld: 1 + r.IntN(5)}
		for range 4 {
			switch k := r.IntN(3); {
			case k == 0 && len(servers) > replicas+1:
				i := r.IntN(len(servers))
				servers = slices.Delete(slices.Clone(servers), i, i+1)
			case k == 1:
				servers = slices.Clone(servers)
				servers[r.IntN(len(servers))].Weight = 0.5 + r.Float64()
			default:
				id := 100 + r.IntN(1<<20)
				servers = append(slices.Clone(servers), Server{ID: id, Lanes: 1 + r.IntN(3), Weight: 1, Host: "n" + string(rune('a'+id%26)) + string(rune('a'+id/26%26))})
			}
			c = walkTo(t, r, c, &servers, lim, replicas)
		}
	}
}

func walkTo(t *testing.T, r *rand.Rand, c *Chains, servers *[]Server, lim Limits, replicas int) *Chains {
	target, err := c.Target(*servers)
	if err != nil {
		t.Fatal(err)
	}
	failed, told := map[[2]int]bool{}, map[int]bool{}
	anew := func() Reports {
		return Reports{Caught: map[int]bool{}, Held: map[int]bool{}, Told: told, Failed: failed}
	}
	seen, kills := anew(), 0
	for steps := 0; ; steps++ {
		if steps > 20_000 {
			t.Fatal("the target is not reached")
		}
		if replicas > 1 && kills == 0 && len(*servers) > replicas+1 && r.IntN(60) == 0 {
			kills++
			dead := (*servers)[r.IntN(len(*servers))].ID
			*servers = slices.DeleteFunc(slices.Clone(*servers), func(s Server) bool { return s.ID == dead })
			next, lost := c.Cut(func(s Server) bool { return s.ID == dead })
			if len(lost) > 0 {
				t.Fatalf("one death lost groups %v", lost)
			}
			mustFollow(t, c, next, seen)
			c = stored(t, next, c.Epoch+1+r.Uint64N(3))
			if target, err = c.Target(*servers); err != nil {
				t.Fatal(err)
			}
			clear(told)
			seen = anew()
			continue
		}
		if g := r.IntN(len(c.Groups)); c.Groups[g].Joiner != nil && r.IntN(8) == 0 {
			failed[[2]int{g, c.Groups[g].Joiner.Server}] = true
			c = stored(t, c.Without(g, c.Groups[g].Joiner.Server), c.Epoch+1)
			seen = anew()
		}
		next, moves := c.Step(target, seen, lim)
		mustFollow(t, c, next, seen)
		failing, waits := map[int]bool{}, map[int]bool{}
		for k := range failed {
			failing[k[1]] = true
		}
		hold, joins := 0, map[int]int{}
		for g := range next.Groups {
			if j := next.Groups[g].Joiner; j != nil {
				joins[j.Server]++
				joins[-1]++
				waits[j.Server] = !failing[j.Server]
			}
		}
		for _, m := range moves {
			if m.Role == Hold {
				hold++
				if to := target.Groups[m.Group].Chain[0].Server; waits[to] && !told[m.Group] {
					t.Fatalf("group %d is drained for server %d, which takes copies: workers would wait behind them", m.Group, to)
				}
				told[m.Group] = true
				if slices.ContainsFunc(target.Groups[m.Group].Chain, func(w Member) bool { return c.Groups[m.Group].Position(w.Server) < 0 }) {
					t.Fatalf("group %d is drained for an order of which it lacks servers: %v, wanted %v", m.Group, c.Groups[m.Group].Chain, target.Groups[m.Group].Chain)
				}
			}
		}
		if joins[-1] > lim.Joins || hold > lim.GroupsHeld {
			t.Fatalf("%d joins and %d drains at a time, at most %d and %d", joins[-1], hold, lim.Joins, lim.GroupsHeld)
		}
		for id, n := range joins {
			if id >= 0 && n > lim.PerServer {
				t.Fatalf("server %d joins %d groups at a time, at most %d", id, n, lim.PerServer)
			}
		}
		if changed := next.Changed(); len(changed) > 0 {
			for _, g := range changed {
				delete(told, g)
			}
			c = stored(t, next, c.Epoch+1+r.Uint64N(3))
			seen = anew()
		} else if slices.ContainsFunc(moves, func(m GroupMove) bool { return m.Role == Aims }) {
			c = stored(t, next, c.Epoch+1)
		} else if len(moves) == 0 && joins[-1] == 0 {
			if len(failed) == 0 {
				break
			}
			clear(failed) // they try again
		}
		for g := range c.Groups { // in the present epoch
			seen.Caught[g] = c.Groups[g].Joiner != nil && (seen.Caught[g] || r.IntN(2) == 0)
			seen.Held[g] = told[g] && (seen.Held[g] || r.IntN(2) == 0)
		}
	}
	for g := range c.Groups {
		if !slices.EqualFunc(c.Groups[g].Chain, target.Groups[g].Chain, func(a, b Member) bool { return a.Server == b.Server }) {
			t.Fatalf("group %d is %v, the target %v", g, c.Groups[g].Chain, target.Groups[g].Chain)
		}
	}
	c.Servers = target.Servers
	mustBeSpread(t, c)
	return c
}

// Workers follow a group's head: on the way to a target it changes once at most.
func TestHeadsMoveOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 9))
	for range 50 {
		replicas := 1 + r.IntN(3)
		c := chains(t, ChainsConfig{Replicas: replicas, Slots: 512, Groups: 12 + r.IntN(20)}, apart(replicas+1+r.IntN(4)))
		target, err := c.Target(append(slices.Clone(c.Servers), Server{ID: 100, Lanes: 1, Weight: 1, Host: "new"}, Server{ID: 101, Lanes: 1, Weight: 1, Host: "newer"}))
		if err != nil {
			t.Fatal(err)
		}
		changes := make([]int, len(c.Groups))
		seen := Reports{}
		for steps := 0; ; steps++ {
			next, moves := c.Step(target, seen, Limits{})
			if len(moves) == 0 {
				break
			}
			if steps > 1000 {
				t.Fatal("the target is not reached")
			}
			mustFollow(t, c, next, seen)
			for g := range c.Groups {
				if next.Groups[g].Chain[0].Server != c.Groups[g].Chain[0].Server {
					changes[g]++
				}
			}
			if len(next.Changed()) > 0 {
				c = stored(t, next, c.Epoch+1)
			}
			seen = Reports{Caught: map[int]bool{}, Held: map[int]bool{}}
			for g := range c.Groups {
				seen.Caught[g] = c.Groups[g].Joiner != nil
			}
			for _, m := range moves {
				seen.Held[m.Group] = m.Role == Hold
			}
		}
		for g, n := range changes {
			if n > 1 {
				t.Errorf("the head of group %d changed %d times on its way to %v", g, n, target.Groups[g].Chain)
			}
		}
	}
}

// mustFollow holds one change of a map to what the chains' protocol relies on.
func mustFollow(t *testing.T, a, b *Chains, seen Reports) {
	t.Helper()
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	for i := range a.Groups {
		was, is := &a.Groups[i], &b.Groups[i]
		last := -1
		for k, m := range is.Chain {
			p := was.Position(m.Server)
			switch {
			case p < 0:
				if was.Joiner == nil || *was.Joiner != m || !seen.Caught[i] || k != len(is.Chain)-1 {
					t.Fatalf("group %d: %v became %v: server %d has not caught up", i, *was, *is, m.Server)
				}
			case p < last && !seen.Held[i]:
				t.Fatalf("group %d: %v became %v without being drained", i, was.Chain, is.Chain)
			case was.Chain[p] != m:
				t.Fatalf("group %d: member %v became %v", i, was.Chain[p], m)
			}
			last = max(last, p)
		}
		if len(is.Chain) < min(len(was.Chain), b.Replicas) && len(b.Servers) >= len(a.Servers) {
			t.Fatalf("group %d went from %d replicas to %d by a move", i, len(was.Chain), len(is.Chain))
		}
	}
}

func TestARestartedServerIsAnother(t *testing.T) {
	c := chains(t, ChainsConfig{Replicas: 2, Slots: 64, Groups: 16}, apart(3))
	again := apart(3)
	again[1].Gen = 5
	target, err := c.Target(again)
	if err != nil {
		t.Fatal(err)
	}
	// While the old process has its chains the new one gets nothing.
	next, _ := c.Step(target, Reports{}, Limits{})
	if next.Servers[next.Index(1)].Gen == 5 {
		t.Fatal("a server's number went to another process while chains rely on the first")
	}
	cut, lost := c.Cut(func(s Server) bool { return s.ID == 1 && s.Gen != 5 })
	if len(lost) > 0 {
		t.Fatalf("lost %v", lost)
	}
	c = stored(t, cut, 2)
	next, moves := c.Step(target, Reports{}, Limits{})
	if next.Servers[next.Index(1)].Gen != 5 || len(moves) == 0 {
		t.Fatalf("servers %v, moves %v", next.Servers, moves)
	}
	// Alone with a group it is kept: nobody else has the rows.
	c = chains(t, ChainsConfig{Slots: 64, Groups: 16}, apart(2))
	cut, lost = c.Cut(func(s Server) bool { return s.ID == 1 })
	if len(lost) != 8 || cut.Index(1) < 0 || len(cut.Changed()) > 0 {
		t.Fatalf("lost %v, changed %v", lost, cut.Changed())
	}
}

// A group that waits for a newcomer that has failed is not put in order meanwhile: its
// chain is as long as wanted, and is of others.
func TestFailedNewcomersAreNotPutInOrder(t *testing.T) {
	c := chains(t, ChainsConfig{Replicas: 2, Slots: 64, Groups: 4}, apart(3))
	target := c.clone()
	g, want := &c.Groups[0], &target.Groups[0]
	out := 3 - g.Chain[0].Server - g.Chain[1].Server
	want.Chain = []Member{g.Chain[0], {Server: out}}
	seen := Reports{Failed: map[[2]int]bool{{0, out}: true}}
	if next, moves := c.Step(target, seen, Limits{}); len(moves) > 0 || len(next.Changed()) > 0 {
		t.Errorf("while the newcomer is to wait: moves %v", moves)
	}
	seen.Held = map[int]bool{0: true} // drained for a target before
	next, moves := c.Step(target, seen, Limits{})
	if !slices.EqualFunc(next.Groups[0].Chain, g.Chain, func(a, b Member) bool { return a.Server == b.Server }) || next.Groups[0].Joiner != nil {
		t.Errorf("drained, while the newcomer is to wait: chain %v, moves %v", next.Groups[0].Chain, moves)
	}
	if len(moves) != 1 || moves[0].Role != Turns {
		t.Errorf("a drained group does not go on: moves %v", moves)
	}
	if _, moves = c.Step(target, Reports{}, Limits{}); len(moves) != 1 || moves[0].Role != Joins || moves[0].To != out {
		t.Errorf("after the pause: moves %v", moves)
	}
}

// small is a map whose groups have the chains that are given, and targets likewise.
func small(t *testing.T, now, want [][]int) (c, target *Chains) {
	c = chains(t, ChainsConfig{Replicas: 2, Slots: 64, Groups: len(now)}, apart(4))
	target = c.clone()
	for g := range now {
		c.Groups[g].Chain, target.Groups[g].Chain = nil, nil
		for _, id := range now[g] {
			c.Groups[g].Chain = append(c.Groups[g].Chain, Member{Server: id})
		}
		for _, id := range want[g] {
			target.Groups[g].Chain = append(target.Groups[g].Chain, Member{Server: id})
		}
	}
	return c, target
}

// A newcomer that cannot take what it is sent keeps neither other copies from their turn
// nor groups from theirs.
func TestFailingNewcomersKeepNobodyWaiting(t *testing.T) {
	c, target := small(t, [][]int{{0}, {0}, {0}, {3, 1}, {3, 2}}, [][]int{{0, 1}, {0, 2}, {0, 1}, {1, 3}, {2, 3}})
	for _, x := range []struct {
		failed map[[2]int]bool
		want   []GroupMove
	}{
		{nil, []GroupMove{{0, 0, 1, Joins}, {4, -1, 3, Hold}}},
		{map[[2]int]bool{{2, 1}: true}, []GroupMove{{1, 0, 2, Joins}, {3, -1, 3, Hold}}},
		{map[[2]int]bool{{2, 1}: true, {1, 2}: true}, []GroupMove{{0, 0, 1, Joins}, {3, -1, 3, Hold}, {4, -1, 3, Hold}}},
	} {
		if _, moves := c.Step(target, Reports{Failed: x.failed}, Limits{}); !slices.Equal(moves, x.want) {
			t.Errorf("failed %v: moves %v, want %v", x.failed, moves, x.want)
		}
	}
}

// Who only sends copies may lead; and heads that were told to drain do, before others
// are told.
func TestHoldsGoOn(t *testing.T) {
	c, target := small(t, [][]int{{1, 0}, {2, 0}, {0}, {3, 1}}, [][]int{{0, 1}, {0, 2}, {0, 3}, {1, 3}})
	for _, x := range []struct {
		told map[int]bool
		want []GroupMove
	}{
		{nil, []GroupMove{{2, 0, 3, Joins}, {0, -1, 1, Hold}}},
		{map[int]bool{3: true}, []GroupMove{{2, 0, 3, Joins}, {3, -1, 3, Hold}}},
		{map[int]bool{1: true, 3: true}, []GroupMove{{2, 0, 3, Joins}, {1, -1, 2, Hold}, {3, -1, 3, Hold}}},
	} {
		if _, moves := c.Step(target, Reports{Told: x.told}, Limits{GroupsHeld: 1}); !slices.Equal(moves, x.want) {
			t.Errorf("told %v: moves %v, want %v", x.told, moves, x.want)
		}
	}
	// To drain is let go on, also when who is to lead has a copy to take since.
	target.Groups[2].Chain = []Member{{Server: 0}, {Server: 1}}
	if _, moves := c.Step(target, Reports{Told: map[int]bool{3: true}}, Limits{}); !slices.Contains(moves, GroupMove{3, -1, 3, Hold}) {
		t.Errorf("moves %v", moves)
	}
	if _, moves := c.Step(target, Reports{}, Limits{}); slices.Contains(moves, GroupMove{3, -1, 3, Hold}) {
		t.Errorf("drained for one that has a copy to take: moves %v", moves)
	}
}

func TestMovesOfOtherJobs(t *testing.T) {
	a, b := &Chains{Slots: 8, Groups: make([]Group, 2)}, &Chains{Slots: 8, Groups: make([]Group, 4)}
	if _, err := ChainMoves(a, b); err == nil {
		t.Error("maps of different jobs were compared")
	}
}

// Who lacks a group's rows goes, also one that cannot take them: for a joiner that says
// nothing more all would wait.
func TestWithout(t *testing.T) {
	c := chains(t, ChainsConfig{Replicas: 2, Slots: 64, Groups: 16}, apart(3))
	g := &c.Groups[5]
	head, tail := g.Chain[0].Server, g.Chain[1].Server
	joins := 3 - head - tail
	g.Joiner = &Member{Server: joins, Joined: 1}
	for _, x := range []struct {
		out, length int
		joiner      bool
	}{{joins, 2, false}, {tail, 1, true}, {head, 1, true}} {
		next := c.Without(5, x.out)
		if n := &next.Groups[5]; n.Has(x.out) || len(n.Chain) != x.length || (n.Joiner != nil) != x.joiner || !slices.Equal(next.Changed(), []int{5}) {
			t.Errorf("without server %d: chain %v, joiner %v, changed %v", x.out, n.Chain, n.Joiner, next.Changed())
		}
	}
	g.Chain, g.Joiner = g.Chain[:1], nil
	if next := c.Without(5, head); len(next.Changed()) > 0 {
		t.Error("a group's only server was taken out")
	}
}
