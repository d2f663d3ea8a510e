package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"psrt/rdma"
)

const (
	maxMessage = 1 << 30
	maxInline  = 256
	maxDepth   = 1 << 16
	baseAddr   = 1 << 20 // addresses of a region start here, so that 0 is never one
)

type domain struct {
	n         *Network
	name      string
	closed    bool
	lastKey   uint64
	made      uint64 // endpoints ever
	regions   map[uint64]*region
	endpoints map[*endpoint]bool
	queues    map[*queue]bool
	stats     rdma.Stats
}

type region struct {
	d      *domain
	mem    []byte
	key    uint64
	access rdma.Access
}

func (d *domain) Caps() rdma.Caps {
	return rdma.Caps{Transport: "sim", Device: d.name, Ops: rdma.Ops(rdma.OpSend, rdma.OpWrite, rdma.OpWriteImm, rdma.OpRead,
		rdma.OpFetchAdd, rdma.OpCompareSwap), MaxInline: maxInline, MaxMessage: maxMessage, MaxDepth: maxDepth, NUMANode: -1, CrossHost: true}
}

func (d *domain) Register(m rdma.Memory, access rdma.Access, purpose string) (rdma.Region, error) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("sim: register %s on %s: %w", purpose, d.name, rdma.ErrClosed)
	}
	if len(m.Bytes()) == 0 {
		return nil, fmt.Errorf("sim: register %s on %s: no bytes: %w", purpose, d.name, rdma.ErrInvalid)
	}
	d.lastKey++
	r := &region{d: d, mem: m.Bytes(), key: d.lastKey, access: access}
	d.regions[r.key] = r
	return r, nil
}

func (r *region) Bytes() []byte { return r.mem }

func (r *region) Remote() rdma.RemoteRange {
	return rdma.RemoteRange{Key: r.key, Addr: baseAddr, Len: uint64(len(r.mem))}
}

func (r *region) Close() error {
	r.d.n.mu.Lock()
	defer r.d.n.mu.Unlock()
	delete(r.d.regions, r.key)
	return nil
}

// reach gives the bytes of a remote range, or nil and false if refused.
func (d *domain) reach(rr rdma.RemoteRange, need rdma.Access) ([]byte, bool) {
	r := d.regions[rr.Key]
	if r == nil || r.access&need != need || rr.Addr < baseAddr {
		return nil, false
	}
	off, size := rr.Addr-baseAddr, uint64(len(r.mem))
	if off > size || rr.Len > size-off {
		return nil, false
	}
	return r.mem[off : off+rr.Len : off+rr.Len], true
}

func (d *domain) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	n := d.n
	n.mu.Lock()
	defer n.mu.Unlock()
	q, ok := cfg.Queue.(*queue)
	if d.closed {
		return nil, fmt.Errorf("sim: endpoint to %s: %w", cfg.Peer, rdma.ErrClosed)
	}
	if !ok || q.d != d || q.closed {
		return nil, fmt.Errorf("sim: endpoint to %s: Queue must be an open one of this domain: %w", cfg.Peer, rdma.ErrInvalid)
	}
	if cfg.SendDepth < 0 || cfg.RecvDepth < 0 || cfg.SendDepth > maxDepth || cfg.RecvDepth > maxDepth ||
		cfg.SendDepth+cfg.RecvDepth > q.depth-q.promised {
		return nil, fmt.Errorf("sim: endpoint to %s: SendDepth %d and RecvDepth %d, the queue has room for %d: %w",
			cfg.Peer, cfg.SendDepth, cfg.RecvDepth, q.depth-q.promised, rdma.ErrInvalid)
	}
	if cfg.OpTimeout <= 0 {
		cfg.OpTimeout = 5 * time.Second
	}
	q.promised += cfg.SendDepth + cfg.RecvDepth
	d.made++
	n.lastID++
	e := &endpoint{d: d, q: q, cfg: cfg, id: n.lastID, rnd: rand.New(rand.NewPCG(n.seed^hash(d.name), d.made)), joined: make(chan struct{})}
	n.endpoints[e.id] = e
	d.endpoints[e] = true
	return e, nil
}

// hash is FNV-1a: enough to tell names apart.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func (d *domain) Stats() rdma.Stats {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	s := d.stats
	s.LiveRegions, s.LiveEndpoints = int64(len(d.regions)), int64(len(d.endpoints))
	return s
}

func (d *domain) Close() error {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.closed = true
	for e := range d.endpoints {
		e.close()
	}
	for q := range d.queues {
		q.close()
	}
	clear(d.regions)
	return nil
}

func (e *endpoint) Address() []byte { return binary.BigEndian.AppendUint64(nil, e.id) }
