package replica

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/chain"
	"psrt/sched/member"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

const ms = time.Millisecond

// script is cores in a world without clocks: time passes when the script says so,
// beats take a millisecond each way, and what is compared and swapped is seen by all
// who reach the store a millisecond later.
type script struct {
	t     *testing.T
	now   time.Duration
	cores map[int]*core
	away  map[int]bool    // stopped
	cut   map[[2]int]bool // from, to
	noKey map[int]bool    // does not reach the store
	deaf  map[int]bool    // takes no rows
	later []event
	gone  map[int]map[int][]place.Node // by server and group: whom its machine knows to have been cut out
	store *place.Chains
	first place.ChainsConfig
	log   []string
	times member.Times
	last  map[int]time.Duration // when a process looked last
	// runs is when a process that is wanted at a moment runs; nil: at once.
	runs func(id int, at time.Duration) time.Duration
}

type event struct {
	at time.Duration
	do func()
}

func newScript(t *testing.T, servers, replicas int) *script {
	return newScriptOf(t, servers, replicas, member.Times{Silent: 200 * ms})
}

func newScriptOf(t *testing.T, servers, replicas int, times member.Times) *script {
	s := &script{t: t, times: times, last: map[int]time.Duration{}, cores: map[int]*core{}, away: map[int]bool{}, cut: map[[2]int]bool{}, noKey: map[int]bool{}, deaf: map[int]bool{}, gone: map[int]map[int][]place.Node{},
		first: place.ChainsConfig{Slots: 16, Groups: 4, Replicas: replicas, AllowSameHost: true}}
	for id := range servers {
		s.start(id, 1)
	}
	for _, c := range s.cores {
		if m, err := c.first(s.first, servers); err != nil {
			t.Fatal(err)
		} else if m != nil {
			s.swap(c, m, 0)
		}
	}
	s.run(100 * ms)
	return s
}

// start registers a process.
func (s *script) start(id int, gen uint64) {
	c := newCore(place.Node{Server: id, Gen: gen}, s.times, place.Limits{})
	s.cores[id], s.gone[id] = c, map[int][]place.Node{}
	for other, o := range s.cores {
		c.regs[other] = Registration{Server: place.Server{ID: other, Gen: o.self.Gen, Lanes: 1, Weight: 1}}
		o.regs[id] = Registration{Server: place.Server{ID: id, Gen: gen, Lanes: 1, Weight: 1}}
	}
	if s.store != nil {
		s.after(ms, func() { s.tell(c) })
	}
}

// after has something done later, at the same moment in the order of these calls.
func (s *script) after(d time.Duration, do func()) {
	at := s.now + d
	i, _ := slices.BinarySearchFunc(s.later, at+1, func(e event, at time.Duration) int { return cmp.Compare(e.at, at) })
	s.later = slices.Insert(s.later, i, event{at, do})
}

// swap is the store's compare and swap.
func (s *script) swap(c *core, next *place.Chains, epoch uint64) {
	if s.noKey[c.self.Server] || s.store != nil && s.store.Epoch != epoch {
		return
	}
	value, err := json.Marshal(next)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.store, err = place.Decode(value, epoch+1); err != nil {
		s.t.Fatal(err)
	}
	var in []int
	for _, v := range s.store.Servers {
		in = append(in, v.ID)
	}
	s.log = append(s.log, fmt.Sprintf("%v: epoch %d by %d: %v", s.now, s.store.Epoch, c.self.Server, in))
	for _, o := range s.cores {
		s.after(ms, func() { s.tell(o) })
	}
}

// asleep says that a process does not run now, and has do done when it does.
func (s *script) asleep(id int, do func()) bool {
	if s.runs == nil {
		return false
	}
	at := s.runs(id, s.now)
	if at > s.now {
		s.after(at-s.now, do)
	}
	return at > s.now
}

// tell has a core learn and adopt what the store has.
func (s *script) tell(c *core) {
	if s.asleep(c.self.Server, func() { s.tell(c) }) {
		return
	}
	if !s.away[c.self.Server] && !s.noKey[c.self.Server] {
		s.adopt(c, s.store)
	}
}

// adopt has a core adopt a map, as the groups' machines would before: where a chain
// has lost somebody they ask for a fence, in each epoch until it has ended.
func (s *script) adopt(c *core, m *place.Chains) {
	before, gone := c.chains, s.gone[c.self.Server]
	if s.cores[c.self.Server] != c || !c.learn(m) {
		return
	}
	for g := range m.Groups {
		now := &m.Groups[g]
		if !c.has(m, g) || now.Position(c.self.Server) < 0 {
			delete(gone, g)
		} else if before != nil && now.Since > before.Groups[g].Since {
			for _, o := range before.Groups[g].Chain {
				if n := before.Node(o.Server); !now.Has(o.Server) || m.Node(o.Server) != n {
					gone[g] = append(gone[g], n)
				}
			}
			if len(gone[g]) > 0 {
				c.report(report{g, chain.Report{Kind: chain.Fence, Epoch: now.Since, Nodes: slices.Clone(gone[g])}}, s.now)
			}
		}
	}
	c.adopt(m, s.now)
}

// run lets time pass.
func (s *script) run(d time.Duration) {
	end := s.now + d
	for ; s.now < end; s.now += ms {
		for len(s.later) > 0 && s.later[0].at <= s.now {
			e := s.later[0]
			s.later = s.later[1:]
			e.do()
		}
		for _, id := range s.ids() {
			due := s.now%tickEvery == 0
			if s.runs != nil {
				due = s.runs(id, s.now) == s.now && s.now-s.last[id] >= tickEvery
			}
			if due && !s.away[id] {
				s.cores[id].woke(s.last[id], s.now)
				s.last[id] = s.now
				s.tick(s.cores[id])
			}
		}
	}
}

func (s *script) ids() (ids []int) {
	for id := range s.cores {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (s *script) tick(c *core) {
	for _, b := range c.beats(s.now) {
		req := psmsg.BeatRequest{From: b.From, To: b.To, Epoch: b.Epoch, Said: c.says()}
		s.after(ms, func() { s.ask(c, b, req) })
	}
	for _, f := range c.due(s.now) {
		delete(s.gone[c.self.Server], f.Group)
		s.log = append(s.log, fmt.Sprintf("%v: fence of group %d at %d", s.now, f.Group, c.self.Server))
	}
	p := c.decide(s.now)
	for _, h := range p.hold {
		if head := s.cores[h.head.Server]; head.self == h.head && s.whole(head, h.Group) {
			head.report(report{h.Group, chain.Report{Kind: chain.Held, Epoch: h.Epoch}}, s.now)
		}
	}
	for g := range s.store.Groups {
		if c.chains == nil || !s.whole(c, g) {
			continue
		}
		switch now := &c.chains.Groups[g]; {
		case now.Joiner == nil:
		case !s.deaf[now.Joiner.Server] && c.has(c.chains, g) && now.Position(c.self.Server) < 0:
			c.report(report{g, chain.Report{Kind: chain.Caught, Epoch: now.Since}}, s.now)
		case s.deaf[now.Joiner.Server] && c.self == c.tail(g):
			c.report(report{g, chain.Report{Kind: chain.Stuck, Epoch: now.Since, Nodes: []place.Node{c.chains.Node(now.Joiner.Server)}}}, s.now)
		}
	}
	if p.next != nil {
		s.swap(c, p.next, c.chains.Epoch)
	}
}

// ask delivers a beat, and its answer.
func (s *script) ask(c *core, b member.Beat, req psmsg.BeatRequest) {
	if s.asleep(b.To.Server, func() { s.ask(c, b, req) }) {
		return
	}
	to := s.cores[b.To.Server]
	if to == nil || to.self != b.To || s.away[b.To.Server] || s.cut[[2]int{c.self.Server, b.To.Server}] {
		return
	}
	reply, newer := to.asked(req, s.now)
	if newer {
		s.after(2*ms, func() { s.adopt(to, c.known) })
	}
	s.after(ms, func() { s.answer(c, to, b, reply) })
}

// answer delivers the answer to a beat, for which nobody waits longer than is patient.
func (s *script) answer(c, to *core, b member.Beat, reply psmsg.BeatReply) {
	if s.asleep(c.self.Server, func() { s.answer(c, to, b, reply) }) || s.now-b.Asked > c.peers.Times().Patience() {
		return
	}
	if !s.away[c.self.Server] && !s.cut[[2]int{b.To.Server, c.self.Server}] && s.cores[c.self.Server] == c {
		if c.answered(b, reply, s.now) {
			s.after(2*ms, func() { s.adopt(c, to.known) })
		}
	}
}

// served says whether a core may serve readers of a group now.
func (s *script) served(id, group int) bool {
	c := s.cores[id]
	if c.chains == nil || !c.has(c.chains, group) || c.chains.Groups[group].Position(id) < 0 {
		return false
	}
	cfg := chain.ConfigOf(c.chains, group)
	return c.peers.Leased(cfg.Nodes(), cfg.Epoch, s.now)
}

func (s *script) wants(what string, is bool) {
	s.t.Helper()
	if !is {
		s.t.Errorf("%v: not so: %s\n%s", s.now, what, strings.Join(s.log, "\n"))
	}
}

func (s *script) in(id int) bool { return s.store.Index(id) >= 0 }

func (s *script) full() bool {
	for i := range s.store.Groups {
		if g := &s.store.Groups[i]; len(g.Chain) < s.first.Replicas || g.Joiner != nil {
			return false
		}
	}
	return true
}

// A silent server is out within 300 ms, its groups are fenced within 520 ms of its
// last grant, and it is taken in again only after 2 s.
func TestScriptStop(t *testing.T) {
	s := newScript(t, 3, 2)
	s.wants("all is well", s.full() && s.store.Epoch == 1)
	s.run(2 * time.Second)
	s.away[1] = true
	s.run(190 * ms)
	s.wants("nobody is cut out for 200 ms", s.in(1))
	s.run(90 * ms)
	s.wants("server 1 is out after 280 ms", !s.in(1))
	s.run(160 * ms)
	s.wants("no fence has ended after 440 ms", !strings.Contains(strings.Join(s.log, ""), "fence"))
	s.run(90 * ms)
	s.wants("fences have ended after 530 ms", strings.Contains(strings.Join(s.log, ""), "fence"))
	s.away[1] = false
	s.run(1500 * ms)
	s.wants("it is not taken in again at once", !s.in(1))
	s.run(1500 * ms)
	s.wants("it is in again", s.in(1) && s.full())
}

// Of a server that is cut off from all others, and they from it, it is the one that
// is cut out, although all reach the store.
func TestScriptCutOff(t *testing.T) {
	for alone := range 3 {
		s := newScript(t, 3, 2)
		for id := range 3 {
			s.cut[[2]int{alone, id}], s.cut[[2]int{id, alone}] = true, true
		}
		s.run(time.Second)
		s.wants(fmt.Sprintf("server %d is out, and the others are not", alone), !s.in(alone) && s.in((alone+1)%3) && s.in((alone+2)%3))
		clear(s.cut)
		s.run(6 * time.Second)
		s.wants("all are in again", s.full() && s.in(alone))
	}
}

// A newcomer that answers beats and takes no rows is let go, and tried less and less
// often, while others move as they should; when it takes them it has its share.
func TestScriptDeaf(t *testing.T) {
	s := newScript(t, 3, 2)
	s.deaf[3] = true
	s.start(3, 1)
	s.run(time.Minute)
	for g := range s.store.Groups {
		s.wants("server 3 is in no chain, and nobody is missed", s.store.Groups[g].Position(3) < 0 && len(s.store.Groups[g].Chain) == 2)
	}
	s.wants(fmt.Sprintf("it is tried, and not for ever: epoch %d", s.store.Epoch), s.store.Epoch > 4 && s.store.Epoch < 80)
	s.start(4, 1)
	s.run(time.Minute)
	n := func(id int) (n int) {
		for g := range s.store.Groups {
			if s.store.Groups[g].Position(id) >= 0 {
				n++
			}
		}
		return n
	}
	s.wants("server 4 has a share", n(4) > 0 && n(3) == 0)
	s.deaf[3] = false
	s.run(5 * time.Minute)
	s.wants("server 3 has one, too", n(3) > 0 && s.full())
}

// A server that does not reach the store follows the others' maps.
func TestScriptStoreAway(t *testing.T) {
	s := newScript(t, 3, 2)
	for id := range 3 {
		s.noKey[id] = true
		for _, c := range s.cores {
			delete(c.regs, id) // their registrations end
		}
	}
	s.run(10 * time.Second)
	s.wants("nothing changes", s.store.Epoch == 1)
	for g := range s.store.Groups {
		s.wants("heads serve", s.served(s.store.Groups[g].Chain[0].Server, g))
	}
	delete(s.noKey, 0)
	s.away[2] = true
	s.run(time.Second)
	s.wants("server 2 is out, and server 1 knows", !s.in(2) && s.cores[1].chains.Epoch == s.store.Epoch)
}

// Whatever happens, nobody serves a group in an epoch once the fence of a later one
// has ended at all members of that one: the rule on which reads of the newest rest.
func TestScriptLeases(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	runs := 3
	if testing.Short() {
		runs = 1
	}
	for range runs {
		s := newScript(t, 4, 3)
		gens := map[int]uint64{0: 1, 1: 1, 2: 1, 3: 1}
		for range 60 {
			id := rng.IntN(4)
			switch rng.IntN(7) {
			case 0:
				s.away[id] = !s.away[id]
			case 1:
				other := rng.IntN(4)
				s.cut[[2]int{id, other}] = !s.cut[[2]int{id, other}]
			case 2:
				s.noKey[id] = !s.noKey[id]
			case 3, 4: // out of everybody's reach, or back
				s.noKey[id] = !s.noKey[id]
				for other := range 4 {
					s.cut[[2]int{id, other}], s.cut[[2]int{other, id}] = s.noKey[id], s.noKey[id]
				}
			case 5:
				if rng.IntN(4) == 0 {
					gens[id]++
					s.start(id, gens[id])
				}
			}
			for range 1 + rng.IntN(30) {
				s.run(10 * ms)
				s.oneServes()
			}
		}
		clear(s.away)
		clear(s.cut)
		clear(s.noKey)
		for _, c := range s.cores {
			s.tell(c)
		}
		s.run(150 * time.Second) // a server that was out often waits a minute
		if _, lost := s.store.Cut(func(v place.Server) bool { return s.cores[v.ID].self.Gen != v.Gen }); len(lost) == 0 {
			s.wants("all groups have their replicas in the end", s.full())
		}
	}
}

// oneServes finds two servers that may serve one group in different epochs, the
// later of which is clear.
func (s *script) oneServes() {
	s.t.Helper()
	for g := range s.store.Groups {
		for a, ca := range s.cores {
			for b, cb := range s.cores {
				if a == b || s.away[a] || s.away[b] || !s.served(a, g) || !s.served(b, g) {
					continue
				}
				ea, eb := ca.chains.Groups[g].Since, cb.chains.Groups[g].Since
				if ea < eb && !cb.chains.Groups[g].Has(a) && s.clear(cb, g) {
					s.t.Fatalf("%v: group %d is served by %d in epoch %d and by %d in %d\n%s", s.now, g, a, ea, b, eb, strings.Join(s.log, "\n"))
				}
			}
		}
	}
}

// whole says whether a group's chain is one in the epoch that c has adopted: only
// then is a joiner brought up to it, or can it be drained.
func (s *script) whole(c *core, group int) bool {
	g := &c.chains.Groups[group]
	for _, m := range g.Chain {
		if s.away[m.Server] || s.noKey[m.Server] {
			return false
		}
	}
	tail := s.cores[g.Chain[len(g.Chain)-1].Server]
	return tail.chains != nil && tail.chains.Groups[group].Since == g.Since && s.clear(tail, group)
}

// clear says whether a member and all before it in its chain are past their fences.
func (s *script) clear(c *core, group int) bool {
	g := &c.chains.Groups[group]
	for _, m := range g.Chain {
		o := s.cores[m.Server]
		if o.self != c.chains.Node(m.Server) || o.chains == nil || o.chains.Groups[group].Since != g.Since ||
			slices.ContainsFunc(o.fences, func(f fence) bool { return f.Group == group }) {
			return false
		}
		if o == c {
			return true
		}
	}
	return false // it joins
}

// However much machines say of an epoch that is not named yet, as one lane takes long to
// adopt it: a fence is asked for once, and is not forgotten.
func TestEarlyFence(t *testing.T) {
	c := newCore(place.Node{Server: 0, Gen: 1}, member.Times{}, place.Limits{})
	first, err := place.NewChains(place.ChainsConfig{Slots: 16, Groups: 4, Replicas: 1}, []place.Server{{ID: 0, Gen: 1, Lanes: 1}})
	if err != nil {
		t.Fatal(err)
	}
	value, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	m, err := place.Decode(value, 5)
	if err != nil {
		t.Fatal(err)
	}
	for range maxSaid + 1 {
		c.report(report{0, chain.Report{Kind: chain.Caught, Epoch: 5}}, 0)
	}
	if len(c.early) > maxSaid {
		t.Errorf("%d reports wait, at most %d may", len(c.early), maxSaid)
	}
	c.report(report{1, chain.Report{Kind: chain.Fence, Epoch: 5, Nodes: []place.Node{{Server: 1, Gen: 1}}}}, 0)
	c.learn(m)
	c.adopt(m, ms)
	if ended := c.due(time.Hour); len(ended) != 1 || ended[0].Group != 1 {
		t.Errorf("fences that end: %v, want group 1's", ended)
	}
}

// Groups whose servers are gone for a moment only, as at a job's end, are told of by nobody;
// those that stay lost once, and again when there are more.
func TestLostIsToldLater(t *testing.T) {
	c := &core{}
	for _, x := range []struct {
		at   time.Duration
		lost []int
		told bool
	}{
		{0, []int{2}, false}, {1, []int{2}, false}, {2, nil, false}, // back
		{3, []int{2}, false}, {5, []int{2}, false}, {6, []int{2}, true}, {7, []int{2}, false}, {30, []int{2}, false},
		{31, []int{2, 3}, false}, {34, []int{2, 3}, true}, {35, []int{3}, false}, {36, nil, false},
		{40, []int{1}, false}, {43, []int{1}, true},
	} {
		c.last.lost = x.lost
		if got := c.lostNow(x.at * time.Second); (got != nil) != x.told || got != nil && !slices.Equal(got, x.lost) {
			t.Errorf("at %d s, %v lost: told %v, want %v", x.at, x.lost, got, x.told)
		}
	}
}
