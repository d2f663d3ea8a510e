package verbs

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// A wr_id: generation 24 bits, endpoint's index in its queue 16, receive 1,
// slot in the endpoint's ring 23.
const (
	slotMask     = 1<<23 - 1
	recvBit      = 1 << 23
	indexShift   = 24
	genShift     = 40
	maxGen       = 1<<24 - 1
	maxEndpoints = 1 << 16
	tagMask      = ^uint64(1<<indexShift - 1)
	// probeSlot is the slot of a request of our own.
	probeSlot = slotMask
	// internalWRs are probes: one at a time.
	internalWRs = 1
)

// endpoint is a queue pair with rings that mirror what is posted on it.
type endpoint struct {
	dom   *Domain
	queue *queue
	cfg   rdma.EndpointConfig
	index uint16
	psn   uint32
	port  ibv.PortAttr // as it was when the endpoint was made
	made  time.Time    // after that
	gids  []gid        // told to the peer
	qpn   uint32       // the queue pair's number, also after it has gone
	// mtu is a code: the port's, and with the path the smaller of both. Written
	// with mu.
	mtu atomic.Uint32
	// verdict is why the domain has stopped the queue pair: see breakAll.
	verdict atomic.Pointer[rdma.Error]

	// In the queue's ring, counted against the depths.
	ringSends, ringRecvs atomic.Int32

	// moving is held while Connect takes the queue pair to another state, which
	// can last, and by Close when it destroys it. Before queue.mu.
	moving sync.Mutex

	mu    sync.Mutex
	qp    *ibv.QP // nil: destroyed; read with mu or moving, written with both
	tag   uint64  // generation and index, as in wr_id; written with queue.mu too
	state state
	cause *rdma.Error // why broken

	sends     []sendSlot // seq & mask for seq in [sendTail, sendNext)
	sendMask  uint64
	sendTail  uint64
	sendNext  uint64
	untold    int // posted since the last signaled request
	tellEvery int
	batch     []ibv.Send
	inline    []byte // bytes of requests that are nobody's region

	recvs    []ibv.Recv // as posted, to post them again
	recvIDs  []uint64
	recvMask uint64
	recvTail uint64
	recvNext uint64
	recvLast *region
	pooled   bool        // receives are in the queue's pool
	answered atomic.Bool // it has been in a state in which it takes receives
	last     atomic.Bool // the device has said that it takes no more of the pool's
	sendLast *region     // of the previous request: usually the same

	probe     probeState
	activity  uint64 // counts what shows that the peer lives
	seen      uint64 // activity and posts at the ticker's last look
	idleSince time.Time
	probes    uint64    // completed
	seenDone  uint64    // sendTail and probes at the ticker's last look
	owedSince time.Time // when it first saw the device owe what it owes; zero: nothing
	released  bool      // reservation given back to queue; with queue.mu
}

type state uint8

const (
	fresh state = iota
	connecting
	connected
	broken
	closed
)

type probeState uint8

const (
	probeIdle probeState = iota
	probePosted
	probeOK
	probeFailed
)

// sendSlot is a posted request.
type sendSlot struct {
	id       uint64
	bytes    uint32
	op       rdma.Op
	signaled bool // its owner asked
	local    *region
}

// NewEndpoint makes a queue pair that can be connected once. It takes receives
// from the start.
func (d *Domain) NewEndpoint(cfg rdma.EndpointConfig) (rdma.Endpoint, error) {
	q, ok := cfg.Queue.(*queue)
	if !ok || q.dom != d {
		return nil, fmt.Errorf("verbs: endpoint to %s: its queue is of another domain: %w", cfg.Peer, rdma.ErrInvalid)
	}
	if cfg.SendDepth < 0 || cfg.RecvDepth < 0 || cfg.SendDepth > d.caps.MaxDepth || cfg.RecvDepth > d.caps.MaxDepth {
		return nil, fmt.Errorf("verbs: endpoint to %s: depths %d and %d: %w; %s takes 0 to %d",
			cfg.Peer, cfg.SendDepth, cfg.RecvDepth, rdma.ErrInvalid, d.cfg.Device, d.caps.MaxDepth)
	}
	if cfg.OpTimeout == 0 {
		cfg.OpTimeout = defaultOpTimeout
	}
	cfg.OpTimeout = min(max(cfg.OpTimeout, minOpTimeout), maxOpTimeout)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || q.closed.Load() {
		return nil, fmt.Errorf("verbs: endpoint to %s: %w", cfg.Peer, rdma.ErrClosed)
	}
	gids, err := d.gids()
	if err != nil {
		return nil, err
	}
	port, err := d.ctx.Port(d.port)
	if err != nil {
		return nil, err
	}
	ep := newEndpoint(d, q, cfg, gids)
	ep.port, ep.made = port, time.Now()
	ep.mtu.Store(port.ActiveMTU)
	if err := ep.open(); err != nil {
		return nil, err
	}
	d.endpoints[ep] = struct{}{}
	d.stats.liveEndpoints.Add(1)
	return ep, nil
}

func newEndpoint(d *Domain, q *queue, cfg rdma.EndpointConfig, gids []gid) *endpoint {
	sends, recvs := ringSize(cfg.SendDepth), ringSize(cfg.RecvDepth)
	batch := min(sends, 32)
	return &endpoint{
		dom: d, queue: q, cfg: cfg, gids: gids, psn: rand.Uint32() & 0xffffff,
		sends: make([]sendSlot, sends), sendMask: uint64(sends - 1),
		tellEvery: max(cfg.SendDepth/4, 1),
		batch:     make([]ibv.Send, batch),
		recvs:     make([]ibv.Recv, recvs), recvIDs: make([]uint64, recvs), recvMask: uint64(recvs - 1),
	}
}

// ringSize is the power of two that holds n.
func ringSize(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// open makes the queue pair and its place in the queue. With Domain.mu, before
// anyone else knows the endpoint.
func (ep *endpoint) open() error {
	q := ep.queue
	q.mu.Lock()
	err := q.enter(ep)
	if err == nil && ep.cfg.SharedRecv {
		if q.pool == nil {
			q.pool, err = ep.dom.newPool(q.depth)
		}
		if ep.pooled = q.pool != nil; err != nil {
			q.leave(ep)
		}
	}
	q.mu.Unlock()
	if err != nil {
		return err
	}
	var shared *ibv.SRQ
	if ep.pooled {
		shared = q.pool.srq
	}
	qp, err := ep.dom.ctx.NewQP(q.cq, shared, ep.cfg.SendDepth+internalWRs, max(ep.cfg.RecvDepth, 1), ep.dom.caps.MaxInline)
	if err != nil {
		err = fmt.Errorf("verbs: endpoint to %s on %s: depths %d and %d: %w", ep.cfg.Peer, ep.dom.cfg.Device, ep.cfg.SendDepth, ep.cfg.RecvDepth, err)
	} else if err = qp.Init(ep.dom.port); err != nil {
		err = errors.Join(fmt.Errorf("verbs: endpoint to %s on %s: %w", ep.cfg.Peer, ep.dom.cfg.Device, err), qp.Close())
	}
	if err != nil {
		q.mu.Lock()
		q.leave(ep)
		q.mu.Unlock()
		return err
	}
	ep.qp, ep.qpn = qp, qp.Num
	if ep.pooled {
		q.mu.Lock()
		q.byQPN[qp.Num] = ep
		q.mu.Unlock()
	}
	return nil
}

// Address is the same until Connect.
func (ep *endpoint) Address() []byte {
	d := ep.dom
	a := address{
		psn: ep.psn, lid: ep.port.LID, opTimeout: ep.cfg.OpTimeout,
		mtu: uint8(ep.port.ActiveMTU), readsIn: uint8(min(d.attr.MaxResponderReads, 255)), link: uint8(ep.port.LinkLayer),
		gids: ep.gids,
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.qp == nil {
		return nil // closed: no peer accepts it
	}
	a.qpn = ep.qp.Num
	return a.encode()
}

// Map is not possible over a wire.
func (ep *endpoint) Map(rdma.RemoteRange) ([]byte, error) {
	return nil, fmt.Errorf("verbs: map memory of %s: %w", ep.cfg.Peer, rdma.ErrNotSupported)
}

// Enter is not possible, as Map is not.
func (ep *endpoint) Enter(r rdma.RemoteRange) ([]byte, error) { return ep.Map(r) }

// Leave has no Enter before it.
func (ep *endpoint) Leave() {}

// failure makes an error of this endpoint.
func (ep *endpoint) failure(op rdma.Op, status rdma.Status, vendor uint32, cause error) *rdma.Error {
	return &rdma.Error{Op: op, Peer: ep.cfg.Peer, QPN: ep.qpn, Status: status, VendorErr: vendor, Cause: cause}
}

// refusal is why nothing can be posted. With mu.
func (ep *endpoint) refusal(what string) error {
	switch ep.state {
	case closed:
		return fmt.Errorf("verbs: post %s to %s: %w", what, ep.cfg.Peer, rdma.ErrClosed)
	case broken:
		return ep.cause
	}
	return fmt.Errorf("verbs: post %s to %s: not connected: %w", what, ep.cfg.Peer, rdma.ErrInvalid)
}

// breaks ends the endpoint's service, once: what is posted comes back flushed.
// With queue.mu and mu.
func (ep *endpoint) breaks(cause *rdma.Error) {
	if ep.state == broken || ep.state == closed {
		return
	}
	if v := ep.verdict.Load(); v != nil {
		cause = v // this is its consequence
	}
	ep.state, ep.cause = broken, cause
	if ep.qp != nil {
		_ = ep.qp.Error() // it is in that state already where the device found the failure
	}
	ep.flushPooled()
}

// ringed: a completion goes to the queue's ring. With mu, held since it was
// counted as in flight: a Post in between would take more than the depth.
func (ep *endpoint) ringed(op rdma.Op) {
	if isRecv(op) {
		ep.ringRecvs.Add(1)
	} else {
		ep.ringSends.Add(1)
	}
}

// unring: a completion left the queue's ring. With queue.mu.
func (ep *endpoint) unring(op rdma.Op) {
	if isRecv(op) {
		ep.ringRecvs.Add(-1)
	} else {
		ep.ringSends.Add(-1)
	}
	ep.queue.releaseIfDone(ep)
}

func isRecv(op rdma.Op) bool { return op == rdma.OpRecv || op == rdma.OpRecvImm }
