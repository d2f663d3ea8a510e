package kvtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/chain"
	"psrt/sched/coord/local"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/replica"
	"psrt/sched/server"
)

// Replicated is servers of a job with replicas, in this process.
type Replicated struct {
	t       testing.TB
	world   *World // what every group's server is like
	store   *local.Store
	first   place.ChainsConfig
	servers int
	members map[int]*memberProcess

	Token []byte
	// Speaks is the newest version of the wire that servers speak which are started
	// next; 0: this program's.
	Speaks int
}

type memberProcess struct {
	m     *replica.Member
	host  *dial.Host
	stop  func()
	ended chan error
}

// NewReplicated starts s.Servers servers that have every group replicas times.
func NewReplicated(t testing.TB, s Shape, replicas, groups int) *Replicated {
	t.Helper()
	w := newWorld(t, s)
	return newReplicated(t, w, s, replicas, groups, 0)
}

// NewOlder is NewReplicated of servers that speak an older version of the wire.
func NewOlder(t testing.TB, s Shape, replicas, groups, speaks int) *Replicated {
	t.Helper()
	return newReplicated(t, newWorld(t, s), s, replicas, groups, speaks)
}

func newReplicated(t testing.TB, w *World, s Shape, replicas, groups, speaks int) *Replicated {
	t.Helper()
	r := &Replicated{t: t, world: w, Speaks: speaks, store: local.New(), servers: s.Servers, members: map[int]*memberProcess{}, Token: w.Token,
		first: place.ChainsConfig{Slots: 64, Groups: groups, Replicas: replicas, AllowSameHost: true}}
	t.Cleanup(func() {
		r.Stop()
		r.store.Close()
	})
	for i := range s.Servers {
		r.Start(i)
	}
	return r
}

// Start starts a server, as another process than those before it.
func (r *Replicated) Start(id int) {
	r.t.Helper()
	speaks := r.Speaks
	h, err := dial.New(dial.Config{Transport: r.world.transport, Token: r.Token, Listen: "127.0.0.1:0"})
	must(r.t, err)
	open := func(seat replica.Seat) (replica.Group, error) {
		cfg := r.world.cfg
		cfg.ID, cfg.Map, cfg.Host, cfg.Watch = seat.Group, seat.Map.GroupMap(), h, server.WatchOff
		cfg.Trainers.Directory = nil
		cfg.Chain = &server.ChainConfig{Self: seat.Self, Group: seat.Group, Speak: speaks, Dial: seat.Dial, OnReport: seat.OnReport, Unheard: seat.Unheard, StoreAway: seat.StoreAway}
		var s *server.Server
		if r.world.open {
			cfg.OnWorkerLost = func(worker int, _ error) { _ = s.Lost(worker) }
		}
		var err error
		if s, err = server.New(cfg); err == nil && r.world.open {
			s.Vacate()
		}
		return s, err
	}
	m, err := replica.New(replica.Config{ID: id, Host: h, Listen: "127.0.0.1:0", Coord: r.store, Server: place.Server{Speaks: speaks}, First: r.first, FirstServers: r.servers, Open: open, Describe: r.describe})
	must(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p := &memberProcess{m: m, host: h, stop: cancel, ended: make(chan error, 1)}
	go func() { p.ended <- m.Run(ctx) }()
	r.members[id] = p
}

func (r *Replicated) describe(_ context.Context, c *place.Chains) (*psmsg.DescribeReply, error) {
	cfg := &r.world.cfg
	blocks, err := densemap.Cut(cfg.Dense.Ranges)
	return &psmsg.DescribeReply{Chains: c, Workers: cfg.Workers, Open: r.world.open, Staleness: cfg.Staleness, Tables: slices.Clone(cfg.Tables),
		DenseLen: len(cfg.Dense.Init), DenseBlocks: len(blocks), Dense: cfg.Trainers.Dense}, err
}

// Addr is where a server listens, once all have a map.
func (r *Replicated) Addr(id int) string {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if r.members[id].m.Chains() != nil {
			return r.members[id].m.Addr()
		}
	}
	r.t.Fatalf("server %d has no map", id)
	return ""
}

// Chains is the newest map that some server has, once all have one.
func (r *Replicated) Chains() (newest *place.Chains) {
	r.t.Helper()
	for id := range r.members {
		r.Addr(id)
		if c := r.members[id].m.Chains(); newest == nil || c.Epoch > newest.Epoch {
			newest = c
		}
	}
	return newest
}

// AwaitWhole waits until every group has all its replicas, and nobody joins, with the
// servers that run.
func (r *Replicated) AwaitWhole() {
	r.t.Helper()
	whole := func(c *place.Chains) bool {
		for _, s := range c.Servers {
			if p := r.members[s.ID]; p == nil {
				return false
			} else if n, ok := p.m.Node(); !ok || n.Gen != s.Gen {
				return false
			}
		}
		return len(c.Servers) == len(r.members) && !slices.ContainsFunc(c.Groups, func(g place.Group) bool { return len(g.Chain) < c.Replicas || g.Joiner != nil })
	}
	for end := time.Now().Add(2 * time.Minute); !whole(r.Chains()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("groups are not whole: %+v", r.Chains())
		}
	}
}

// Stop ends all servers.
func (r *Replicated) Stop() {
	for _, p := range r.members { // all at once: nobody's death is dealt with
		p.stop()
	}
	for id, p := range r.members {
		if err := <-p.ended; err != nil {
			r.t.Errorf("server %d: %v", id, err)
		}
		p.host.Close()
		delete(r.members, id)
	}
}

// Host is one that workers dial from.
func (r *Replicated) Host() *dial.Host {
	r.t.Helper()
	return r.world.Host()
}

// Whole waits until every group has all its replicas, and nobody is joining one.
func (r *Replicated) Whole() {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, p := range r.members {
			c := p.m.Chains()
			if c != nil && !slices.ContainsFunc(c.Groups, func(g place.Group) bool { return len(g.Chain) < r.first.Replicas || g.Joiner != nil }) {
				return
			}
			break
		}
	}
	r.t.Fatal("groups stay short of replicas")
}

// Spoken are the versions of the wire that workers may speak with the groups' heads.
func (r *Replicated) Spoken() (all []int) {
	for _, p := range r.members {
		c := p.m.Chains()
		for g := range c.Groups {
			all = append(all, chain.ConfigOf(c, g).Speaks)
		}
		break
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Head is a server that is the head of some group.
func (r *Replicated) Head() int {
	for _, p := range r.members {
		n, _ := p.m.Chains().Head(0)
		return n.Server
	}
	return -1
}

// Kill ends a process as a signal does: it tells nobody.
func (r *Replicated) Kill(id int) {
	r.t.Helper()
	p := r.members[id]
	delete(r.members, id)
	if r.world.transport != "shm" { // else its lanes may be in the memory that this would take away
		p.host.Close()
	}
	p.stop()
	<-p.ended
	p.host.Close()
}
