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

// A member whose port for data is closed while it answers otherwise is named by what waits
// for it; when the port is open, the push is acknowledged and counts once.
func TestChainBehindAShutDoor(t *testing.T) {
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, tables: []table.Spec{sgdTable()}, doors: true}, 2, []int{0, 1})
	k, keys := w.worker(0, 1), w.keysOf(0, 10)
	if code := k.push(0, 0, keys, 1, true); code != psmsg.CodeOK {
		t.Fatalf("a push was answered %v", code)
	}
	before := w.nodes[0]
	before.door.shut.Store(true)
	lane := before.servers[0].lanes[0]
	must(t, lane.do(patience, func() {
		for _, p := range lane.chain.peers.all {
			lane.chain.hangUp(p)
		}
	}))
	answered := make(chan psmsg.Code, 1)
	go func() {
		defer close(answered)
		answered <- k.push(0, 1, keys, 2, true)
	}()
	w.until("a stall names it", func() bool {
		return slices.ContainsFunc(before.servers[0].Waits(context.Background(), 0, 0), func(s stall.Wait) bool {
			return s.On == "server 2" && strings.Contains(s.What, "server 2 answers, and in") && strings.Contains(s.What, "connection refused")
		})
	})
	before.door.shut.Store(false)
	if code, ok := <-answered; !ok || code != psmsg.CodeOK && code != psmsg.CodeDuplicate {
		t.Errorf("the push was answered %v", code)
	}
	for _, v := range k.pull(0, 2, keys, false) {
		if v != -3 {
			t.Fatalf("a row is %v, want -3", v)
		}
	}
	w.alike()
}

// Tries that nobody answered do not count, nor those before a link or of another member.
func TestUnlinked(t *testing.T) {
	began, failed := time.Now(), errors.New("no")
	var u unlinked
	a, b := chain.Node{Server: 1}, chain.Node{Server: 2}
	for i, x := range []struct {
		of               chain.Node
		at               time.Duration
		answered, linked bool
		says             string
	}{
		{a, 0, false, false, ""},
		{a, 1, true, false, "server 1 answers, and in 0 s"},
		{a, 3, true, false, "server 1 answers, and in 2 s no connection for data was made to it, tried 2 times"},
		{a, 4, true, true, ""},
		{a, 5, true, false, "tried 1 times"},
		{b, 6, true, false, "server 2 answers, and in 0 s no connection for data was made to it, tried 1 times"},
		{b, 8, false, false, "in 2 s no connection for data was made to it, tried 1 times"},
	} {
		now := began.Add(x.at * time.Second)
		u.tried(x.of, x.answered, x.linked, failed, now)
		if why := u.why(now); !strings.Contains(why, x.says) || (why == "") != (x.says == "") {
			t.Errorf("try %d: a stall says %q, want %q", i, why, x.says)
		}
	}
}
