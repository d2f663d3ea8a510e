package member

import (
	"slices"
	"testing"
	"time"

	"psrt/sched/place"
)

const ms = time.Millisecond

var a, b = Node{Server: 0, Gen: 1}, Node{Server: 1, Gen: 1}

// answer lets to answer a question of from's, both at their own time.
func answer(t *testing.T, from, to *Peers, asked, answered time.Duration) {
	t.Helper()
	q := Beat{From: from.self, To: to.self, Asked: asked, Epoch: from.epoch}
	r, ok, _ := to.Step(q, answered)
	if !ok {
		t.Fatal("a question is not answered")
	}
	from.Step(r, asked+ms)
}

func TestLeaseAndFence(t *testing.T) {
	const skew = time.Hour // clocks need not agree
	pa, pb := NewPeers(a, Times{}), NewPeers(b, Times{})
	pa.Adopt(3)
	pb.Adopt(3)
	chain := []Node{a, b}
	if pb.Leased(chain, 3, 0) {
		t.Error("leased by nobody")
	}
	answer(t, pb, pa, 100*ms, skew+110*ms)
	if !pb.Leased(chain, 3, 599*ms) || pb.Leased(chain, 3, 600*ms) {
		t.Error("a lease is not 500 ms from when it was asked for")
	}
	if end, ok := pb.LeaseEnd(chain, 3, 200*ms); !ok || end != 600*ms {
		t.Errorf("the lease ends at %v", end)
	}
	// a cuts b out: it waits for the end of what it has answered, and a little.
	pa.Adopt(5)
	end := pa.Released([]Node{b}, 5, skew+300*ms)
	if want := skew + 110*ms + 510*ms; end != want {
		t.Errorf("released at %v, want %v", end, want)
	}
	// b asks on, and gets no lease from a newer epoch.
	answer(t, pb, pa, 400*ms, skew+410*ms)
	if pb.Leased(chain, 3, 450*ms) {
		t.Error("leased by one that has a newer map")
	}
	if pa.Reached([]Node{b}, 5) {
		t.Error("b has not named epoch 5")
	}
	pb.Adopt(5)
	answer(t, pb, pa, 500*ms, skew+510*ms)
	if !pa.Reached([]Node{b}, 5) || pa.Released([]Node{b}, 5, skew+520*ms) != skew+520*ms {
		t.Error("a fence goes on though b has left the epoch before")
	}
}

func TestSuspicion(t *testing.T) {
	pa, pb := NewPeers(a, Times{}), NewPeers(b, Times{})
	pa.Tick([]Node{b}, 0)
	answer(t, pa, pb, 10*ms, 10*ms)
	if pa.Suspects(b, 200*ms) || !pa.Suspects(b, 320*ms) {
		t.Error("suspicion is not after 200 ms without an answer, and a beat")
	}
	answer(t, pa, pb, 330*ms, 330*ms)
	if pa.Suspects(b, 340*ms) {
		t.Error("one that answers is suspected")
	}
	pa.Late(200 * ms) // a itself was away: that is no silence of b's
	if pa.Suspects(b, 780*ms) || !pa.Suspects(b, 781*ms) {
		t.Error("a server's own absence is held against others, or excuses them for longer")
	}
	answer(t, pa, pb, 850*ms, 850*ms)
	if !pa.Suspects(b, 1160*ms) {
		t.Error("an absence excuses twice")
	}
	// One whose answers take long is given longer, and not for ever.
	q := Beat{From: a, To: b, Asked: 860 * ms}
	r, _, _ := pb.Step(q, 900*ms)
	pa.Step(r, 960*ms)
	if pa.Suspects(b, 1300*ms) || !pa.Suspects(b, 1311*ms) {
		t.Error("an answer that took 100 ms does not make it 400 ms")
	}
	for range 4 * fades {
		pa.Step(r, 861*ms)
	}
	if !pa.Suspects(b, 1161*ms) {
		t.Error("a slow answer is held in mind for ever")
	}
	pa.Step(r, 5*time.Second)
	if pa.Suspects(b, 2910*ms) || !pa.Suspects(b, 2911*ms) {
		t.Error("the longest time is not 2 s")
	}
	pa, pb = NewPeers(a, Times{}), NewPeers(b, Times{})
	pa.Tick([]Node{b}, 0)
	if pa.Suspects(b, 2050*ms) || !pa.Suspects(b, 2051*ms) {
		t.Error("one that has never answered is not suspected after 2 s")
	}
	answer(t, pa, pb, 860*ms, 860*ms)
	pa.Broken(b, 870*ms)
	if !pa.Suspects(b, 870*ms) {
		t.Error("a broken connection is no suspicion")
	}
	answer(t, pa, pb, 880*ms, 880*ms)
	if pa.Suspects(b, 890*ms) {
		t.Error("it has answered since")
	}
}

func TestDead(t *testing.T) {
	pa, pb := NewPeers(a, Times{}), NewPeers(b, Times{})
	pa.Tick([]Node{b}, 0)
	if pa.Dead(b, 10050*ms) || !pa.Dead(b, 10051*ms) {
		t.Error("one that was never heard is not given 10 s")
	}
	answer(t, pa, pb, 100*ms, 100*ms)
	if !pa.Suspects(b, 400*ms) || pa.Dead(b, 2150*ms) || !pa.Dead(b, 2151*ms) {
		t.Error("a silent one is not given 2 s")
	}
	pa.Broken(b, 200*ms)
	if !pa.Dead(b, 200*ms) {
		t.Error("nobody is there, and it is waited for")
	}
	if pa.Dead(a, time.Hour) {
		t.Error("a server cuts itself out")
	}
}

func TestDecide(t *testing.T) {
	servers := []place.Server{{ID: 0, Lanes: 1, Gen: 1, Host: "a"}, {ID: 1, Lanes: 1, Gen: 1, Host: "b"}, {ID: 2, Lanes: 1, Gen: 1, Host: "c"}}
	c, err := place.NewChains(place.ChainsConfig{Slots: 64, Groups: 8, Replicas: 2}, servers)
	if err != nil {
		t.Fatal(err)
	}
	c.Epoch, c.Began = 1, 1
	for g := range c.Groups {
		c.Groups[g].Since = 1
	}
	nobody := func(Node) bool { return false }
	if next, moves, _ := Decide(View{Map: c, Servers: servers, Suspects: nobody}); next != nil || len(moves) > 0 {
		t.Errorf("all is well, and %v is proposed", moves)
	}
	next, _, lost := Decide(View{Map: c, Servers: servers, Suspects: func(n Node) bool { return n.Server == 1 }})
	if next == nil || len(lost) > 0 || next.Index(1) >= 0 {
		t.Fatalf("a suspected server stays: lost %v", lost)
	}
	for g := range next.Groups {
		if len(next.Groups[g].Chain) == 0 || next.Groups[g].Has(1) {
			t.Errorf("group %d: %v", g, next.Groups[g].Chain)
		}
	}
	again := append([]place.Server{}, servers...)
	again[1].Gen = 2 // started again before anybody noticed
	if next, _, _ = Decide(View{Map: c, Servers: again, Suspects: nobody}); next == nil || next.Index(1) >= 0 {
		t.Error("a server that was started again is relied on")
	}
}

// Who lacks a group's rows goes before who is silent: that one has them.
func TestDecideLost(t *testing.T) {
	servers := []place.Server{{ID: 0, Lanes: 1, Gen: 1, Host: "a"}, {ID: 1, Lanes: 1, Gen: 1, Host: "b"}, {ID: 2, Lanes: 1, Gen: 1, Host: "c"}}
	c, err := place.NewChains(place.ChainsConfig{Slots: 64, Groups: 1, Replicas: 2}, servers)
	if err != nil {
		t.Fatal(err)
	}
	c.Epoch, c.Began, c.Groups[0].Since = 1, 1, 1
	chain := c.Groups[0].Chain
	node := func(server int) Node { return Node{Server: server, Gen: 1} }
	for _, x := range []struct {
		what         string
		lost, silent int
		chain        []place.Member
	}{
		{"a member has lost its rows", chain[1].Server, -1, chain[:1]},
		{"and the other is silent", chain[1].Server, chain[0].Server, chain[:1]},
	} {
		next, _, _ := Decide(View{Map: c, Servers: servers, Lost: map[int][]Node{0: {node(x.lost)}}, Suspects: func(n Node) bool { return n.Server == x.silent }})
		if next == nil {
			t.Errorf("%s: all stays", x.what)
		} else if g := next.Groups[0]; !slices.Equal(g.Chain, x.chain) || g.Since != 0 {
			t.Errorf("%s: the chain is %v, want %v", x.what, g.Chain, x.chain)
		}
	}
}

// Who is asked to go does not while the only others have to wait: a chain would be
// shorter for it. Where there are none it goes.
func TestDecideLeaving(t *testing.T) {
	servers := []place.Server{{ID: 0, Lanes: 1, Gen: 1, Host: "a"}, {ID: 1, Lanes: 1, Gen: 1, Host: "b"}}
	c, err := place.NewChains(place.ChainsConfig{Slots: 64, Groups: 1, Replicas: 2}, servers)
	if err != nil {
		t.Fatal(err)
	}
	c.Epoch, c.Began, c.Groups[0].Since = 1, 1, 1
	third := append(slices.Clone(servers), place.Server{ID: 2, Lanes: 1, Gen: 1, Host: "c"})
	for _, x := range []struct {
		what    string
		servers []place.Server
		waits   bool
		goes    bool // the chain changes, or a joiner comes
	}{{"nobody else", servers, false, true}, {"another that waits", third, true, false}, {"another", third, false, true}} {
		v := View{Map: c, Servers: x.servers, Suspects: func(Node) bool { return false }, Leaving: func(n Node) bool { return n.Server == 1 },
			Waits: func(n Node) bool { return x.waits && n.Server == 2 }, Limits: place.Limits{Joins: 1, PerServer: 1, GroupsHeld: 1}}
		next, _, _ := Decide(v)
		if next != nil != x.goes {
			t.Errorf("%s: proposed is %+v", x.what, next)
		}
		if next != nil && x.what == "another" && len(next.Groups[0].Chain) < 2 {
			t.Errorf("%s: the chain is %v", x.what, next.Groups[0].Chain)
		}
	}
}

func TestTurnsAndOuts(t *testing.T) {
	var u Turns
	if u.Now(true, 4, 2, 100*ms, 0) || u.Now(true, 4, 2, 100*ms, 199*ms) || !u.Now(true, 4, 2, 100*ms, 200*ms) || u.Now(true, 5, 2, 100*ms, 210*ms) {
		t.Error("the third in line does not wait two staggers for each epoch")
	}
	o := NewOuts(2 * time.Second)
	before := &place.Chains{Servers: []place.Server{{ID: 0, Gen: 1}, {ID: 1, Gen: 1}}}
	after := &place.Chains{Servers: before.Servers[:1]}
	o.Adopt(before, after, 0)
	if !o.Waits(b, 1999*ms) || o.Waits(b, 2*time.Second) || o.Waits(a, 0) {
		t.Error("one that was cut out does not wait 2 s")
	}
	o.Adopt(before, after, 10*time.Second)
	if !o.Waits(b, 13*time.Second) || o.Waits(b, 14*time.Second) {
		t.Error("nor 4 s the second time")
	}
}

// Who has adopted a map after it was asked is asked again at once, and once: the lease
// waits for that.
func TestAdoptedLater(t *testing.T) {
	p := NewPeers(a, Times{})
	beat := p.Times().Beat
	now := time.Duration(0)
	ask := func() int { return len(p.Tick([]Node{b}, now)) }
	says := func(epoch uint64) {
		p.Step(Beat{From: b, To: a, Answer: true, Asked: now, Epoch: epoch}, now)
	}
	p.Adopt(2)
	if ask() != 1 {
		t.Fatal("nobody is asked")
	}
	says(1)
	now += beat / 5
	if ask() != 0 {
		t.Error("who has an older map is asked too often")
	}
	p.Step(Beat{From: b, To: a, Epoch: 2}, now)
	if ask() != 1 {
		t.Error("who has adopted since is not asked at once")
	}
	says(2)
	if p.Step(Beat{From: b, To: a, Epoch: 2}, now); ask() != 0 {
		t.Error("who has answered is asked too often")
	}
}

// Whose answer a lease waits for, and since when.
func TestUnheard(t *testing.T) {
	c := Node{Server: 2, Gen: 1}
	pa, pb := NewPeers(a, Times{}), NewPeers(b, Times{})
	pa.Tick([]Node{a, b, c}, 50*ms)
	answer(t, pa, pb, 100*ms, 110*ms)
	if nodes, since := pa.Unheard([]Node{a, b}, 0, 200*ms); len(nodes)+len(since) > 0 {
		t.Errorf("%v since %v, though all have answered", nodes, since)
	}
	nodes, since := pa.Unheard([]Node{a, b, c}, 0, 5*time.Second)
	if !slices.Equal(nodes, []Node{b, c}) || !slices.Equal(since, []time.Duration{100 * ms, 50 * ms}) {
		t.Errorf("%v since %v, want %v since its last answer and %v since it was looked at", nodes, since, b, c)
	}
}
