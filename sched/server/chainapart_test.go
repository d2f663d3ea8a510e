package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/tcp"
	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
	"psrt/tiers/table"
)

// door is a process's way to others' ports for data: while it is shut their hosts refuse
// it there, though not where it asks, and connections that are there stay.
type door struct{ shut atomic.Bool }

func (o *door) transports() []dial.Transport {
	return []dial.Transport{{Name: "tcp", CrossHost: true, Open: func() (rdma.Domain, error) {
		d, err := tcp.New(tcp.Config{Listen: "127.0.0.1:0"})
		return &doorDomain{d, o}, err
	}}}
}

type doorDomain struct {
	rdma.Domain
	door *door
}

func (d *doorDomain) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	ep, err := d.Domain.NewEndpoint(cfg)
	return &doorEndpoint{ep, d.door}, err
}

type doorEndpoint struct {
	rdma.Endpoint
	door *door
}

func (e *doorEndpoint) Connect(remote []byte, deadline time.Time) error {
	if e.door.shut.Load() {
		return errors.New("connection refused")
	}
	return e.Endpoint.Connect(remote, deadline)
}

// newDoors is two servers of a group, and a worker that has pushed.
func newDoors(t *testing.T) (*chainWorld, *chainWorker, []uint64) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}, linkPatience: 20 * time.Millisecond}, 2, []int{0, 1})
	k, keys := w.worker(0, 1), w.keysOf(0, 10)
	if code := k.push(0, 0, keys, 1, true); code != psmsg.CodeOK {
		t.Fatalf("a push was answered %v", code)
	}
	return w, k, keys
}

// reported says whether a node was.
func (w *chainWorld) reported(n *chainNode) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.apart, n.node)
}

// comesBack has a node catch up.
func (w *chainWorld) comesBack(n *chainNode) {
	w.t.Helper()
	w.join(n, 0)
	w.until("it has caught up", func() bool { return w.caught.Load() == 1 })
	w.alike()
}

// A member whose port for data is closed while it answers otherwise is named by what waits
// for it, and reported by the one before it; without it the push is acknowledged, and counts
// once. When the port is open it is a replica again.
func TestChainBehindAShutDoor(t *testing.T) {
	w, k, keys := newDoors(t)
	before, behind := w.nodes[0], w.nodes[1]
	before.door.shut.Store(true)
	lane := before.servers[0].lanes[0]
	must(t, lane.do(patience, func() {
		for _, p := range lane.chain.peers.all {
			lane.chain.hangUp(p)
		}
	}))
	answered := make(chan psmsg.Code, 1)
	go func() { answered <- k.push(0, 1, keys, 2, true) }()
	w.until("who is behind the door is reported", func() bool { return w.reported(behind) })
	w.until("a stall names it", func() bool {
		return slices.ContainsFunc(before.servers[0].Waits(context.Background(), 0, 0), func(s stall.Wait) bool {
			return s.On == "server 2" && strings.Contains(s.What, "server 2 answers, and in") && strings.Contains(s.What, "connection refused")
		})
	})
	if w.reported(before) {
		t.Error("a head that its worker has reached is reported")
	}
	w.cut(behind)
	if code := <-answered; code != psmsg.CodeOK && code != psmsg.CodeDuplicate {
		t.Errorf("the push was answered %v", code)
	}
	before.door.shut.Store(false)
	w.comesBack(behind)
	for _, v := range k.pull(0, 2, keys, false) {
		if v != -3 {
			t.Fatalf("a row is %v, want -3", v)
		}
	}
}

// A head whose port for data is closed to workers says so of itself.
func TestChainHeadBehindAShutDoor(t *testing.T) {
	w, k, keys := newDoors(t)
	head := w.nodes[0]
	k.door.shut.Store(true)
	k.lose(0)
	w.until("the head says that nobody gets in", func() bool {
		if _, err := k.at(0); err == nil {
			t.Error("a worker gets in through a closed port")
			return true
		}
		return w.reported(head)
	})
	if w.reported(w.nodes[1]) {
		t.Error("who is linked to the head is reported")
	}
	k.door.shut.Store(false)
	w.cut(head)
	if code := k.push(0, 1, keys, 2, true); code != psmsg.CodeOK {
		t.Errorf("a push to the next head was answered %v", code)
	}
	w.comesBack(head)
}

// One that hangs up, is stopped or is reached now and then is nobody to go on without.
func TestUnlinked(t *testing.T) {
	const ms = time.Millisecond
	began, failed := time.Now(), errors.New("no")
	var u unlinked
	a, b := chain.Node{Server: 1}, chain.Node{Server: 2}
	try := func(of int, at time.Duration, answered, linked bool) bool {
		n := a
		if of == 2 {
			n = b
		}
		err := failed
		if linked {
			err = nil
		}
		u.tried(n, answered, linked, err, began.Add(at))
		return u.lasts(100*ms, began.Add(at))
	}
	for i := range 20 {
		if try(1, time.Duration(i)*50*ms, false, false) {
			t.Fatal("one that answers nothing is taken for one behind a firewall")
		}
	}
	for i, x := range []struct {
		of               int
		at               time.Duration
		answered, linked bool
		lasts            bool
	}{
		{1, 1000 * ms, true, false, false}, {1, 1200 * ms, true, false, false}, {1, 1201 * ms, true, true, false}, // reached
		{1, 1300 * ms, true, false, false}, {2, 1400 * ms, true, false, false}, {2, 1450 * ms, true, false, false}, // another
		{2, 1460 * ms, true, false, false}, {2, 1499 * ms, false, false, false}, {2, 1500 * ms, false, false, true},
	} {
		if got := try(x.of, x.at, x.answered, x.linked); got != x.lasts {
			t.Errorf("try %d: it lasts: %v, want %v", i, got, x.lasts)
		}
	}
	if why := u.why(began.Add(2400 * ms)); !strings.Contains(why, "server 2 answers, and in 1 s") || !strings.Contains(why, "tried 3 times") {
		t.Errorf("a stall says %q", why)
	}
}
