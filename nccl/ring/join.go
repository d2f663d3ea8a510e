package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"psrt/nccl/coll"
	"psrt/nccl/hier"
	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
)

// Join makes this rank's end of a group, which has the epoch of place, above that of
// any before. address gives the Addr of a rank's member, and waits where it is not
// known yet. Join returns when all ranks are connected, or with ctx.
func (m *Member) Join(ctx context.Context, place Place, address func(ctx context.Context, rank int) (string, error)) (*Group, error) {
	if err := place.check(); err != nil {
		return nil, err
	}
	arrivals, err := m.expect(&place)
	if err != nil {
		return nil, err
	}
	defer m.joined()
	g, err := newGroup(place, m.opt, m.host.OnPanic())
	if err != nil {
		return nil, err
	}
	j := joining{m: m, g: g, place: &place, address: address}
	if err := j.all(ctx, arrivals); err != nil {
		_ = g.abandon()
		return nil, fmt.Errorf("ring: group %q, epoch %d, rank %d of %d: %w", m.name, place.Epoch, place.Rank, place.Size, err)
	}
	if err := g.begin(); err != nil {
		_ = g.abandon()
		return nil, err
	}
	return g, nil
}

type joining struct {
	m       *Member
	g       *Group
	place   *Place
	address func(ctx context.Context, rank int) (string, error)
}

// all connects the ranks below by dialling and those above by being dialled. The
// first failure ends the rest.
func (j *joining) all(ctx context.Context, arrivals map[int]chan arrival) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for r := range j.place.Size {
		if r == j.place.Rank {
			continue
		}
		wg.Go(rdma.Guarded(j.m.host.OnPanic(), func() {
			var err error
			if ch, above := arrivals[r]; above {
				err = j.admit(ctx, r, ch)
			} else {
				err = j.dial(ctx, r)
			}
			if err != nil {
				cancel(fmt.Errorf("rank %d: %w", r, err))
			}
		}))
	}
	wg.Wait()
	return context.Cause(ctx)
}

// admit waits for rank r. Whoever fails to connect may come again.
func (j *joining) admit(ctx context.Context, r int, ch chan arrival) error {
	var last error
	for {
		select {
		case a := <-ch:
			if a.hello.To != j.place.Rank || a.hello.Size != j.place.Size {
				err := fmt.Errorf("it takes this one for rank %d of %d", a.hello.To, a.hello.Size)
				_ = a.in.Reject(dial.Final(err))
				return err
			}
			if a.hello.Hosts != j.place.hostsSum() {
				err := fmt.Errorf("it names other hosts of the ranks than this one")
				_ = a.in.Reject(dial.Final(err))
				return err
			}
			conn, err := a.in.Finish(func(_ int, d rdma.Domain) rdma.EndpointConfig {
				cfg, err := j.g.attach(r, d)
				if err != nil {
					cfg.Queue = nil // which NewEndpoint refuses
				}
				return cfg
			}, nil)
			if err == nil {
				return j.g.connected(r, conn)
			}
			last = err
		case <-ctx.Done():
			if last != nil {
				return last
			}
			return fmt.Errorf("it has not come: %w", context.Cause(ctx))
		}
	}
}

// dial connects to rank r, again and again until ctx ends or the rank refuses for good.
func (j *joining) dial(ctx context.Context, r int) error {
	word, err := json.Marshal(hello{Version: version, Name: j.m.name, Epoch: j.place.Epoch, From: j.place.Rank, To: r, Size: j.place.Size, Hosts: j.place.hostsSum()})
	if err != nil {
		return err
	}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		addr, err := j.address(ctx, r)
		if err != nil {
			return err
		}
		conn, _, err := j.m.host.Dial(ctx, addr, word, 1, func(_ int, d rdma.Domain) (rdma.EndpointConfig, error) { return j.g.attach(r, d) })
		if err == nil {
			return j.g.connected(r, conn)
		}
		if ctx.Err() != nil || errors.Is(err, dial.ErrFinal) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

func newGroup(place Place, opt Options, onPanic func(any)) (*Group, error) {
	g := &Group{place: place, opt: opt, onPanic: onPanic, peers: make([]*peer, place.Size)}
	if place.Hosts != nil {
		g.levels = hier.Split(place.Order, place.Hosts)
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.memories.Store(&memorySet{})
	others := place.Size - 1
	g.mux = dial.NewMux(max(others, 1) * (2*messageSlots + dataDepth))
	g.mux.Guard(onPanic)
	if others == 0 {
		return g, nil
	}
	slot := headerBytes + opt.EagerBytes
	slot = (slot + 63) &^ 63
	var err error
	g.arena, err = mem.New(mem.Config{Size: others * 2 * messageSlots * slot, Node: opt.Node, Purpose: "collectives' messages", Share: true, Prefault: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ring: %w", err), g.mux.Close())
	}
	for i := range others {
		p := &peer{rank: (place.Rank + 1 + i) % place.Size, held: -1}
		g.peers[p.rank] = p
		g.around = append(g.around, p)
		for k := range messageSlots {
			at := (i*2*messageSlots + 2*k) * slot
			p.recvs[k] = g.arena.Bytes()[at : at+headerBytes+opt.EagerBytes]
			p.sends[k] = g.arena.Bytes()[at+slot : at+slot+headerBytes+opt.EagerBytes]
		}
	}
	return g, nil
}

// attach is what an endpoint to rank r on d must be made with.
func (g *Group) attach(r int, d rdma.Domain) (rdma.EndpointConfig, error) {
	q, err := g.mux.Queue(d)
	if err != nil {
		return rdma.EndpointConfig{}, err
	}
	g.memMu.Lock()
	defer g.memMu.Unlock()
	if !slices.Contains(g.domains, d) {
		region, err := d.Register(g.arena, rdma.AccessRemoteWrite, "collectives' messages")
		if err != nil {
			return rdma.EndpointConfig{}, err
		}
		g.domains, g.regions = append(g.domains, d), append(g.regions, region)
	}
	return rdma.EndpointConfig{Queue: q, SendDepth: messageSlots + dataDepth, RecvDepth: messageSlots,
		Peer: fmt.Sprintf("rank %d", r), OpTimeout: g.opt.Timeout}, nil
}

// connected takes a finished connection. Each rank has its own goroutine here.
func (g *Group) connected(r int, conn *dial.Conn) error {
	p := g.peers[r]
	caps := conn.Domains[0].Caps()
	p.conn, p.ep, p.domain, p.mapped = conn, conn.Endpoints[0], conn.Domains[0], caps.Mapped
	p.most = caps.MaxMessage
	p.chunk = min(g.opt.ChunkBytes, p.most)
	return p.begin()
}

// begin starts what a connected group needs.
func (g *Group) begin() error {
	far := false
	for _, p := range g.around {
		far = far || !p.mapped
	}
	if far {
		if err := g.land(); err != nil {
			return err
		}
	}
	for _, p := range g.around {
		g.serving.Go(rdma.Guarded(g.onPanic, func() { g.serve(p) }))
	}
	return nil
}

// land makes landing memory.
func (g *Group) land() (err error) {
	if g.landing, err = mem.New(mem.Config{Size: g.opt.LandingBytes, Node: g.opt.Node, Purpose: "collectives' landing", Share: true}); err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	access := rdma.AccessLocal
	if g.place.Size == 2 {
		access = rdma.AccessRemoteWrite // see direct.go
	}
	for _, d := range g.domains {
		r, err := d.Register(g.landing, access, "collectives' landing")
		if err != nil {
			return fmt.Errorf("ring: register landing memory: %w", err)
		}
		g.regions = append(g.regions, r)
		if d == g.around[0].domain { // other domains may have been tried
			g.landed = r
		}
	}
	return nil
}

// abandon gives up a group that was not made.
func (g *Group) abandon() error {
	g.setVerdict(coll.ErrClosed)
	g.stop()
	for _, p := range g.around {
		if p.conn != nil {
			_ = p.conn.Close()
		}
	}
	g.serving.Wait()
	return g.release()
}
