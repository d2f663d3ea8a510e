package shm

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/invariant"
)

const defaultOpTimeout = 5 * time.Second

// Endpoint is one side of a connection.
//
// Who may touch the sending state (sent, peerPosted, accesses, unrung, and the
// producing end of done): the goroutine in Post while waiting is 0, and Poll
// with mu while it is not. Only Post makes it non-zero, with mu, and Poll's
// last act of a round is to count it down, so the right passes with the count.
type Endpoint struct {
	d         *Domain
	q         *Queue
	cfg       rdma.EndpointConfig
	id, nonce id
	ring      *ring // ours: the peer writes arrivals there
	ringFile  *os.File
	check     invariant.CloseChecker
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc

	guard   guard // around Post and PostRecv, and from Enter to Leave
	closed  atomic.Bool
	failure atomic.Pointer[failure]
	link    atomic.Pointer[link]
	views   atomic.Pointer[viewSet]
	counts  counts

	sent       uint64 // receives of the peer that were consumed
	peerPosted uint64 // as last read
	accesses   uint64 // value of ring.access
	unrung     bool   // something was published since the peer's bell was rung
	lastSet    *viewSet
	lastView   *view // valid while views is lastSet
	done       completions

	// Receives: number s is recvs[s&mask]. PostRecv moves posted, Poll consumed.
	recvs         []recv
	posted        atomic.Uint64
	consumed      atomic.Uint64
	lastReceiving uint64 // region of the last posted receive; PostRecv's
	deaf          bool   // Poll's: the peer wrote nonsense, arrivals are not read any more

	waiting atomic.Int32 // len(queue)

	incoming chan *greeting // a peer that dialled, until Connect takes it
	changed  chan struct{}  // a region was granted; one token

	// mapMu is held for reading by who touches the link's mappings outside the
	// guards, for writing by who makes and unmakes them. Taken before mu and
	// Domain.mu.
	mapMu sync.RWMutex

	mu         sync.Mutex
	connecting bool
	queue      []waiter             // requests that wait for the peer
	asked      map[viewKey]struct{} // regions asked for
	receiving  map[uint64]struct{}  // own regions that receives point into
	granted    map[uint64]struct{}  // own regions that the peer was given
}

// recv is the private half of a posted receive.
type recv struct {
	id     uint64
	length int
}

var _ rdma.Endpoint = (*Endpoint)(nil)

// NewEndpoint makes one side of a connection, polled by cfg.Queue.
func (d *Domain) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	q, ok := cfg.Queue.(*Queue)
	switch {
	case !ok || q.d != d:
		return nil, fmt.Errorf("shm: endpoint to %s: Queue must be one of this domain: %w", cfg.Peer, rdma.ErrInvalid)
	case cfg.SendDepth < 0 || cfg.SendDepth > maxDepth || cfg.RecvDepth < 0 || cfg.RecvDepth > maxDepth:
		return nil, fmt.Errorf("shm: endpoint to %s: depths %d and %d, want 0 to %d: %w", cfg.Peer, cfg.SendDepth, cfg.RecvDepth, maxDepth, rdma.ErrInvalid)
	case cfg.OpTimeout < 0:
		return nil, fmt.Errorf("shm: endpoint to %s: OpTimeout %v is negative: %w", cfg.Peer, cfg.OpTimeout, rdma.ErrInvalid)
	}
	if cfg.OpTimeout == 0 {
		cfg.OpTimeout = defaultOpTimeout
	}
	n := powerOfTwo(max(cfg.RecvDepth, 1))
	r, file, err := newRing(n)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{d: d, q: q, cfg: cfg, ring: r, ringFile: file, recvs: make([]recv, n),
		incoming: make(chan *greeting, 1), changed: make(chan struct{}, 1),
		asked: map[viewKey]struct{}{}, receiving: map[uint64]struct{}{}, granted: map[uint64]struct{}{}}
	e.done.slots = make([]rdma.Completion, powerOfTwo(max(cfg.SendDepth, 1)))
	e.views.Store(&viewSet{})
	rand.Read(e.id[:])
	rand.Read(e.nonce[:])
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if err := d.enter(e); err != nil {
		e.cancel()
		file.Close()
		r.seg.unmap()
		return nil, err
	}
	e.check.Open("shm endpoint", cfg.Peer)
	return e, nil
}

// enter makes e a child of the domain and of its queue.
func (d *Domain) enter(e *Endpoint) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("shm: endpoint to %s: %w", e.cfg.Peer, rdma.ErrClosed)
	}
	if err := e.q.attach(e); err != nil {
		return err
	}
	d.endpoints[e.id] = e
	return nil
}

// Address is what the peer's Connect needs.
func (e *Endpoint) Address() []byte {
	a := address{endpoint: e.id, nonce: e.nonce, domain: e.d.id, socket: e.d.socket}
	return a.encode()
}
