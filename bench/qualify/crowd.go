package qualify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
)

// crowdDepth is how many writes are on their way to each peer.
const crowdDepth = 4

// slotAlign keeps slots on cache lines of their own.
const slotAlign = 64

// crowdSlot is how much of a region each of n ranks has in it: one slot that is
// sent from, and one for each peer to write to.
func crowdSlot(region, n, most int) int {
	return max(min(region/n, most)/slotAlign*slotAlign, slotAlign)
}

// crowd is this rank's part of all pairs at once.
type crowd struct {
	r    *rank
	plan crowdPlan
	mux  *dial.Mux

	mu    sync.Mutex
	over  bool
	met   map[int]*friend // by rank; finished connections
	write sync.Mutex      // one goroutine polls mux
}

// friend is one peer's connection.
type friend struct {
	rank   int
	conn   *dial.Conn
	remote rdma.RemoteRange // its slot for us; Len 0 until known
	sent   int              // messages complete
	flying int
	broken error
}

// together is one of the director's calls for all pairs at once.
func (r *rank) together(ctx context.Context, method string, p crowdPlan) (any, error) {
	r.mu.Lock()
	c := r.crowd
	if method == callGather {
		c = &crowd{r: r, plan: p, mux: dial.NewMux(crowdDepth * len(p.Peers)), met: map[int]*friend{}}
		if r.crowd != nil || r.acts == nil || p.Slot < slotAlign || (len(p.Peers)+1)*p.Slot > len(r.buf) {
			r.mu.Unlock()
			return nil, fmt.Errorf("qualify: rank %d cannot gather: slots of %d bytes for %d peers in %d", r.cfg.Rank, p.Slot, len(p.Peers), len(r.buf))
		}
		r.crowd = c
	}
	r.mu.Unlock()
	if c == nil || c.plan.Serial != p.Serial {
		return nil, errors.New("qualify: nobody gathered")
	}
	switch method {
	case callGather:
		fill(c.out(), crowdSeed(p.Seed, r.cfg.Rank))
		for _, peer := range p.Peers {
			clear(c.in(peer.Rank))
		}
		return nil, nil
	case callMeet:
		return c.meet(ctx), nil
	case callWrite:
		return c.writeAll(ctx)
	}
	checked := c.check()
	r.mu.Lock()
	r.crowd = nil
	r.mu.Unlock()
	return checked, c.close()
}

// crowdSeed is of the bytes that a rank writes everywhere.
func crowdSeed(seed uint64, rank int) uint64 { return seed + uint64(rank)*0x9e3779b97f4a7c15 }

func fill(b []byte, seed uint64) {
	rng := rand.NewPCG(seed, 1)
	for len(b) > 0 {
		x := rng.Uint64()
		for i := 0; i < 8 && len(b) > 0; i++ {
			b[0] = byte(x >> (8 * i))
			b = b[1:]
		}
	}
}

func (c *crowd) out() []byte { return c.r.buf[:c.plan.Slot] }

// place is the slot number that a peer has here: its place among the peers.
func (c *crowd) place(rank int) int {
	for i, p := range c.plan.Peers {
		if p.Rank == rank {
			return i
		}
	}
	return -1
}

func (c *crowd) in(rank int) []byte {
	return c.r.buf[(1+c.place(rank))*c.plan.Slot:][:c.plan.Slot]
}

// attach puts a peer's endpoint on the queue of all.
func (c *crowd) attach(rank int, d rdma.Domain, region *rdma.Region) (rdma.EndpointConfig, error) {
	reg, err := c.r.region(d)
	if err != nil {
		return rdma.EndpointConfig{}, err
	}
	*region = reg
	q, err := c.mux.Queue(d)
	return rdma.EndpointConfig{Queue: q, SendDepth: crowdDepth, Peer: fmt.Sprintf("rank %d", rank), OpTimeout: c.r.plan.Timeout}, err
}

// aim is the slot of a peer in this rank's memory.
func (c *crowd) aim(rank int, region rdma.Region) aim {
	return aim{region.Remote().Slice(uint64((1+c.place(rank))*c.plan.Slot), uint64(c.plan.Slot))}
}

// meet dials the peers that this rank is to dial, some at a time.
func (c *crowd) meet(ctx context.Context) crowdMet {
	const atOnce = 8
	var wg sync.WaitGroup
	var mu sync.Mutex
	met := crowdMet{Failed: map[int]string{}}
	turn := make(chan struct{}, atOnce)
	for _, p := range c.plan.Peers {
		if !p.Dial {
			continue
		}
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			if err := c.dial(ctx, p); err != nil {
				mu.Lock()
				met.Failed[p.Rank] = err.Error()
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return met
}

func (c *crowd) dial(ctx context.Context, p crowdPeer) error {
	word, err := json.Marshal(hello{Serial: c.plan.Serial, From: c.r.cfg.Rank, Crowd: true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*c.r.plan.Timeout)
	defer cancel()
	var region rdma.Region
	conn, _, err := c.r.host.Dial(ctx, p.Addr, word, 1, func(_ int, d rdma.Domain) (rdma.EndpointConfig, error) { return c.attach(p.Rank, d, &region) })
	if err != nil {
		return err
	}
	var theirs aim
	if err := conn.Call(ctx, peerAim, c.aim(p.Rank, region), &theirs); err != nil {
		return errors.Join(err, conn.Close())
	}
	return c.add(&friend{rank: p.Rank, conn: conn, remote: theirs.Region})
}

func (c *crowd) add(f *friend) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.met[f.rank] != nil || f.remote.Len != uint64(c.plan.Slot) {
		return errors.Join(fmt.Errorf("qualify: rank %d is not expected here", f.rank), f.conn.Close())
	}
	c.met[f.rank] = f
	return nil
}

// receive is the other side of dial.
func (c *crowd) receive(in *dial.Incoming, from int) {
	if c.place(from) < 0 {
		_ = in.Reject(fmt.Errorf("qualify: rank %d is not expected here", from)) // the peer may be gone already
		return
	}
	var region rdma.Region
	conn, err := in.Finish(func(_ int, d rdma.Domain) rdma.EndpointConfig {
		cfg, err := c.attach(from, d, &region)
		if err != nil {
			return rdma.EndpointConfig{} // without a queue it is refused
		}
		return cfg
	}, nil)
	if err != nil {
		return // the dialer says why
	}
	_ = conn.Serve(context.Background(), func(_ context.Context, method string, body json.RawMessage) (any, error) {
		var theirs aim
		if err := json.Unmarshal(body, &theirs); method != peerAim || err != nil {
			return nil, fmt.Errorf("qualify: a rank asks for %q; run the same psbench everywhere", method)
		}
		return c.aim(from, region), c.add(&friend{rank: from, conn: conn, remote: theirs.Region})
	})
}

// writeAll writes to all peers in turn for as long as the plan says.
func (c *crowd) writeAll(ctx context.Context) (crowdWrote, error) {
	c.write.Lock()
	defer c.write.Unlock()
	c.mu.Lock()
	var friends []*friend
	byEndpoint := map[rdma.Endpoint]*friend{}
	for i := range c.plan.Peers { // beginning behind oneself, so that not all begin with rank 0
		p := c.plan.Peers[(i+c.first())%len(c.plan.Peers)]
		if f := c.met[p.Rank]; f != nil {
			friends = append(friends, f)
			byEndpoint[f.conn.Endpoints[0]] = f
		}
	}
	c.mu.Unlock()
	start := time.Now()
	end := start.Add(c.plan.Duration)
	limit := end.Add(c.r.plan.Timeout)
	cs := make([]rdma.Completion, 64)
	for {
		now := time.Now()
		flying := 0
		for _, f := range friends {
			if now.Before(end) || f.sent == 0 { // check looks for one message at least
				c.post(f)
			}
			flying += f.flying
		}
		if flying == 0 {
			break
		}
		if now.After(limit) || ctx.Err() != nil {
			return crowdWrote{}, fmt.Errorf("qualify: %d writes were not done %v after the end", flying, c.r.plan.Timeout)
		}
		n := c.mux.Poll(cs)
		if n == 0 {
			if err := c.mux.Wait(now.Add(10 * time.Millisecond)); err != nil && !errors.Is(err, rdma.ErrDeadline) {
				return crowdWrote{}, err
			}
			continue
		}
		for _, done := range cs[:n] {
			f := byEndpoint[done.Endpoint]
			if f == nil {
				continue
			}
			f.flying--
			if done.Status != rdma.StatusOK {
				f.broken = done.Err
				continue
			}
			f.sent++
		}
	}
	wrote := crowdWrote{Took: time.Since(start), Failed: map[int]string{}}
	for _, f := range friends {
		wrote.Bytes += int64(f.sent) * int64(c.plan.Slot)
		if f.broken != nil {
			wrote.Failed[f.rank] = f.broken.Error()
		}
	}
	return wrote, nil
}

// first is the place behind this rank's own.
func (c *crowd) first() int {
	for i, p := range c.plan.Peers {
		if p.Rank > c.r.cfg.Rank {
			return i
		}
	}
	return 0
}

// post fills the peer's window.
func (c *crowd) post(f *friend) {
	for f.flying < crowdDepth && f.broken == nil {
		wr := rdma.WR{Op: rdma.OpWrite, Signaled: true, Local: c.out(), Remote: f.remote}
		n, err := f.conn.Endpoints[0].Post([]rdma.WR{wr})
		if err != nil {
			f.broken = err
			return
		}
		if n == 0 {
			return
		}
		f.flying++
	}
}

// check compares what every peer has written here with what it must be.
func (c *crowd) check() crowdChecked {
	var checked crowdChecked
	want := make([]byte, c.plan.Slot)
	for _, p := range c.plan.Peers {
		c.mu.Lock()
		met := c.met[p.Rank] != nil
		c.mu.Unlock()
		if !met {
			continue
		}
		fill(want, crowdSeed(c.plan.Seed, p.Rank))
		if crc32.ChecksumIEEE(want) != crc32.ChecksumIEEE(c.in(p.Rank)) {
			checked.Bad = append(checked.Bad, p.Rank)
		}
	}
	return checked
}

func (c *crowd) close() error {
	c.mu.Lock()
	c.over = true
	met := c.met
	c.met = map[int]*friend{}
	c.mu.Unlock()
	var errs []error
	for _, f := range met {
		errs = append(errs, f.conn.Close())
	}
	c.write.Lock()
	defer c.write.Unlock()
	return errors.Join(append(errs, c.mux.Close())...)
}
