package dial

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
)

// TestPairRails holds the rule against what it promises, for random matrices.
func TestPairRails(t *testing.T) {
	r := seedtest.Rand(t)
	for range 2000 {
		reach := make([][]int, 1+r.IntN(4))
		peers := 1 + r.IntN(4)
		usable := 0
		for i := range reach {
			reach[i] = make([]int, peers)
			ok := false
			for j := range reach[i] {
				reach[i][j] = r.IntN(4) - 1
				ok = ok || reach[i][j] >= 0
			}
			if ok {
				usable++
			}
		}
		count := r.IntN(12)
		distances := make([]int, len(reach))
		for i := range distances {
			distances[i] = r.IntN(2)
		}
		pairs := pairRails(reach, distances, count, r.IntN(5))
		if (pairs == nil) != (usable == 0) || pairs != nil && len(pairs) != count {
			t.Fatalf("%v: %d pairs of %d", reach, len(pairs), count)
		}
		used := make([]int, len(reach))
		for _, p := range pairs {
			for i, row := range reach {
				if distances[i] < distances[p.here] && slices.Max(row) >= 0 {
					t.Fatalf("%v, distances %v: rail %d is used, %d is nearer", reach, distances, p.here, i)
				}
			}
			used[p.here]++
			for _, other := range reach[p.here] {
				if reach[p.here][p.peer] < 0 || other > reach[p.here][p.peer] {
					t.Fatalf("%v: pair %v is not the best of its row", reach, p)
				}
			}
		}
		for i := range used { // the rails here are used equally often, but for one
			for j := range used {
				if used[i] > 0 && used[j] > 0 && max(used[i]-used[j], used[j]-used[i]) > 1 {
					t.Fatalf("%v: rails are used %v times", reach, used)
				}
			}
		}
	}
	same := [][]int{{5, 5}, {5, 5}}
	if p := pairRails(same, []int{1, 1}, 4, 0); p[0] != (railPair{0, 0}) || p[1] != (railPair{1, 1}) || p[2] != (railPair{0, 0}) || p[3] != (railPair{1, 1}) {
		t.Errorf("equal rails are paired %v, want each with its like", p)
	}
}

// plank is a rail made of a tcp domain.
type plank struct {
	rdma.Domain
	name string
	down atomic.Bool
}

func (p *plank) Describe() ([]byte, error) {
	if p.down.Load() {
		return nil, errors.New("the link is down")
	}
	return []byte(p.name), nil
}

func (p *plank) Caps() rdma.Caps {
	c := p.Domain.Caps()
	c.Device = p.name
	return c
}

func (p *plank) Reach([]byte) int { return 1 }

func (p *plank) Distance() int { return 10 }

func openPlank(t *testing.T, name string) *plank {
	d, err := openLoopback()
	if err != nil {
		t.Fatal(err)
	}
	return &plank{Domain: d, name: name}
}

func planks(t *testing.T) ([]*plank, Transport) {
	var list []*plank
	for _, name := range []string{"left", "right"} {
		list = append(list, openPlank(t, name))
	}
	return list, Transport{Name: "planks", CrossHost: true, Rails: func() ([]rdma.Domain, error) {
		return []rdma.Domain{list[0], list[1]}, nil
	}}
}

// TestRails: endpoints share the rails; one that goes down is left out from
// the next connection on, and used again when it is back.
func TestRails(t *testing.T) {
	ours, ts := planks(t)
	theirs, tc := planks(t)
	server, client := newHost(t, Config{Transports: []Transport{ts}}), newHost(t, Config{Transports: []Transport{tc, far()}})
	l := listen(t, server, "127.0.0.1:0")
	sl, cl := newLane(t), newLane(t)
	connect := func(count int) joined {
		t.Helper()
		j := join(t, client, server, l, cl, sl, count)
		if j.clientErr != nil || j.servErr != nil {
			t.Fatal(j.clientErr, j.servErr)
		}
		exchange(t, j, cl, sl)
		return j
	}
	count := func(ds []rdma.Domain) (left, right int) {
		for _, d := range ds {
			if d.(*plank).name == "left" {
				left++
			} else {
				right++
			}
		}
		return left, right
	}
	j := connect(4)
	for _, ds := range [][]rdma.Domain{j.client.Domains, j.server.Domains} {
		if a, b := count(ds); a != 2 || b != 2 {
			t.Errorf("four endpoints are on %d and %d rails", a, b)
		}
	}
	if want := "planks: an RDMA device reaches the peer (left; right)"; j.client.Reason != want {
		t.Errorf("reason %q, want %q", j.client.Reason, want)
	}
	one, two := connect(1), connect(1)
	if one.server.Domains[0] == two.server.Domains[0] {
		t.Error("connections of one endpoint are all on one rail")
	}
	ours[0].down.Store(true)
	theirs[1].down.Store(true)
	j = connect(2)
	if a, b := count(j.server.Domains); a != 0 || b != 2 {
		t.Errorf("with left down, the server is on left %d times", a)
	}
	if a, b := count(j.client.Domains); a != 2 || b != 0 {
		t.Errorf("with right down, the client is on right %d times", b)
	}
	ours[1].down.Store(true)
	if j := join(t, client, server, l, cl, sl, 2); j.clientErr == nil || !strings.Contains(j.clientErr.Error(), "the link is down") {
		t.Errorf("all rails down: %v", j.clientErr)
	}
	ours[0].down.Store(false)
	connect(2)
}

// broken is a rail whose description says that it works, and whose endpoints
// never connect.
type broken struct{ plank }

func (b *broken) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	ep, err := b.plank.NewEndpoint(cfg)
	return lameEndpoint{ep}, err
}

// TestBrokenRail: a link that has just gone down is still offered; the
// connection is made over what works.
func TestBrokenRail(t *testing.T) {
	left, right := openPlank(t, "left"), openPlank(t, "right")
	transport := Transport{Name: "planks", CrossHost: true, Rails: func() ([]rdma.Domain, error) {
		return []rdma.Domain{&broken{plank{Domain: left, name: "left"}}, right}, nil
	}}
	_, theirs := planks(t)
	server, client := newHost(t, Config{Transports: []Transport{transport}, StepTimeout: 4 * time.Second}), newHost(t, Config{Transports: []Transport{theirs}, StepTimeout: 4 * time.Second})
	l := listen(t, server, "127.0.0.1:0")
	sl, cl := newLane(t), newLane(t)
	j := join(t, client, server, l, cl, sl, 2)
	if j.clientErr != nil || j.servErr != nil {
		t.Fatal(j.clientErr, j.servErr)
	}
	if j.server.Domains[0] != rdma.Domain(right) || j.server.Domains[1] != rdma.Domain(right) || !strings.Contains(j.client.Reason, "planks could not be set up (left; right)") {
		t.Errorf("connected by %s", j.client.Reason)
	}
	exchange(t, j, cl, sl)
}

// Devices may take longer to open than a listener waits for a hello.
func TestSlowDevices(t *testing.T) {
	const step = time.Second
	_, theirs := planks(t)
	_, ours := planks(t)
	slow := ours
	slow.Rails = func() ([]rdma.Domain, error) {
		time.Sleep(3 * step / 2)
		return ours.Rails()
	}
	server, client := newHost(t, Config{Transports: []Transport{theirs}, StepTimeout: step}), newHost(t, Config{Transports: []Transport{slow}, StepTimeout: step})
	l := listen(t, server, "127.0.0.1:0")
	sl, cl := newLane(t), newLane(t)
	j := join(t, client, server, l, cl, sl, 1)
	if j.clientErr != nil || j.servErr != nil {
		t.Fatal(j.clientErr, j.servErr)
	}
	exchange(t, j, cl, sl)
}

// TestHostileRails: what a peer says about rails is not believed.
func TestHostileRails(t *testing.T) {
	_, transport := planks(t)
	h := newHost(t, Config{Transports: []Transport{transport}})
	for _, rails := range [][]int{nil, {0}, {0, 2}, {-1, 0}, {0, 1, 0}} {
		if _, err := h.onRails("planks", 2, rails); err == nil {
			t.Errorf("rails %v for two endpoints are taken", rails)
		}
	}
	if _, err := h.onRails("planks", 2, []int{1, 0}); err != nil {
		t.Error(err)
	}
	many := terms{Offers: []offer{{Name: "planks", Rails: make([][]byte, maxRails+1)}}}
	long := terms{Offers: []offer{{Name: "planks", Rails: [][]byte{make([]byte, maxAddress+1)}}}}
	if many.sane() || long.sane() {
		t.Error("too many rails, or too long ones, are taken")
	}
}
