package tcp

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/secure"
	"psrt/rdma/wire"
)

// Domain implements rdma.Domain.
type Domain struct {
	cfg     Config
	regions atomic.Pointer[regionSet]
	// placing: see doc.go.
	placing sync.RWMutex
	stats   counters
	gate    *wire.Gate
	crowds  crowds
	id      *secure.Identity
	done    chan struct{}
	// wg counts the accept loop, handshakes, the ticker and every goroutine of
	// an endpoint.
	wg sync.WaitGroup
	// holders are the Waits that may keep a processor to themselves.
	holders atomic.Int32

	mu        sync.Mutex
	closed    bool
	listener  net.Listener
	endpoints map[uint64]*endpoint
	past      past
	queues    map[*queue]struct{}
}

type counters struct {
	sent, received                       atomic.Uint64
	copiedOut, copiedIn                  atomic.Uint64
	posted, completed, failed, flushed   atomic.Uint64
	damaged                              atomic.Uint64
	liveRegions, liveEndpoints, refusals atomic.Int64
}

var (
	_ rdma.Domain   = (*Domain)(nil)
	_ rdma.Region   = (*region)(nil)
	_ rdma.Queue    = (*queue)(nil)
	_ rdma.Endpoint = (*endpoint)(nil)
)

// New opens a domain and, where the configuration says so, its listener.
func New(cfg Config) (*Domain, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Streams = max(cfg.Streams, 1)
	d := &Domain{
		cfg:       cfg,
		gate:      wire.NewGate(pending()),
		crowds:    crowds{at: make(map[string]*crowd)},
		done:      make(chan struct{}),
		endpoints: make(map[uint64]*endpoint),
		queues:    make(map[*queue]struct{}),
	}
	if cfg.Carrier != nil {
		d.id = cfg.Carrier.Identity()
	} else {
		var err error
		if d.id, err = secure.NewIdentity(); err != nil {
			return nil, err
		}
	}
	d.regions.Store(&regionSet{byKey: map[uint64]*region{}})
	if cfg.Listen != "" {
		if err := d.Listen(cfg.Listen); err != nil {
			return nil, err
		}
	}
	d.wg.Add(1)
	go rdma.Guarded(cfg.OnPanic, d.tick)()
	return d, nil
}

// Listen opens the listener of a domain made without one: endpoints whose
// Address is taken from now on can be reached.
func (d *Domain) Listen(addr string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("tcp: listen on %s: %w", addr, rdma.ErrClosed)
	}
	if d.listener != nil {
		return fmt.Errorf("tcp: listen on %s: already listening on %s: %w", addr, d.listener.Addr(), rdma.ErrInvalid)
	}
	var l net.Listener
	var err error
	if d.cfg.Carrier != nil {
		l, err = d.cfg.Carrier.Listen(addr)
	} else {
		l, err = net.Listen("tcp", addr)
	}
	if err != nil {
		return fmt.Errorf("%s: listen on %s: %w; choose an address of this host and a free port (0: any)", d.cfg.name(), addr, err)
	}
	d.listener = l
	d.wg.Add(1)
	go rdma.Guarded(d.cfg.OnPanic, func() { d.acceptLoop(l) })()
	return nil
}

func (d *Domain) Caps() rdma.Caps { return d.cfg.caps() }

// Refused counts connections that were closed because they were no peers of
// ours: garbage, wrong proofs, silence.
func (d *Domain) Refused() int64 { return d.stats.refusals.Load() }

// Stats: what is copied is payload of at most inlineMax bytes (16 of an answer
// to a read), out of the frame that it shares with its header, and inline
// payload into its slot.
func (d *Domain) Stats() rdma.Stats {
	s := &d.stats
	return rdma.Stats{
		SentBytes: s.sent.Load(), ReceivedBytes: s.received.Load(),
		Posted: s.posted.Load(), Completed: s.completed.Load(), Failed: s.failed.Load(), Flushed: s.flushed.Load(),
		LiveRegions: s.liveRegions.Load(), LiveEndpoints: s.liveEndpoints.Load(),
		CopiedOutBytes: s.copiedOut.Load(), CopiedInBytes: s.copiedIn.Load(),
		Damaged: s.damaged.Load(),
	}
}

// NewEndpoint makes an endpoint that can be connected once.
func (d *Domain) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	q, ok := cfg.Queue.(*queue)
	if !ok || q.dom != d {
		return nil, fmt.Errorf("tcp: endpoint to %s: its queue is of another domain: %w", cfg.Peer, rdma.ErrInvalid)
	}
	if cfg.SendDepth < 0 || cfg.RecvDepth < 0 || cfg.SendDepth > maxDepth || cfg.RecvDepth > maxDepth {
		return nil, fmt.Errorf("tcp: endpoint to %s: depths %d and %d: %w; use 0 to %d", cfg.Peer, cfg.SendDepth, cfg.RecvDepth, rdma.ErrInvalid, maxDepth)
	}
	if cfg.OpTimeout == 0 {
		cfg.OpTimeout = defaultOpTimeout
	}
	cfg.OpTimeout = min(max(cfg.OpTimeout, minOpTimeout), maxOpTimeout)
	if err := q.reserve(cfg.SendDepth + cfg.RecvDepth); err != nil {
		return nil, err
	}
	ep := newEndpoint(d, q, cfg)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || q.closed.Load() {
		q.release(cfg.SendDepth + cfg.RecvDepth)
		return nil, fmt.Errorf("tcp: endpoint to %s: %w", cfg.Peer, rdma.ErrClosed)
	}
	for ep.id == 0 || d.endpoints[ep.id] != nil {
		ep.id = rand.Uint64()
	}
	d.endpoints[ep.id] = ep
	d.stats.liveEndpoints.Add(1)
	return ep, nil
}

func (d *Domain) endpoint(id uint64) *endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endpoints[id]
}

func (d *Domain) endpointsOf(q *queue) []*endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	var eps []*endpoint
	for _, ep := range d.endpoints {
		if q == nil || ep.queue == q {
			eps = append(eps, ep)
		}
	}
	return eps
}

// Close closes endpoints, queues and regions, then waits for every goroutine.
func (d *Domain) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	listener := d.listener
	queues := make([]*queue, 0, len(d.queues))
	for q := range d.queues {
		queues = append(queues, q)
	}
	d.mu.Unlock()
	close(d.done)
	if listener != nil {
		_ = listener.Close()
	}
	d.gate.Close()
	for _, ep := range d.endpointsOf(nil) {
		_ = ep.Close()
	}
	for _, q := range queues {
		_ = q.Close()
	}
	d.wg.Wait()
	if d.cfg.Carrier != nil {
		_ = d.cfg.Carrier.Close()
	}
	for _, r := range d.regions.Load().byStart {
		_ = r.Close()
	}
	return nil
}

// tick drives the liveness rules of all endpoints; see live.go.
func (d *Domain) tick() {
	defer d.wg.Done()
	const slowest, fastest = 250 * time.Millisecond, 5 * time.Millisecond
	for {
		pause := slowest
		now := time.Now()
		for _, ep := range d.endpointsOf(nil) {
			pause = min(pause, ep.tickPeriod())
			ep.tick(now)
		}
		select {
		case <-d.done:
			return
		case <-time.After(max(pause, fastest)):
		}
	}
}
