package tcp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

var (
	// errWithdrawn: memory of a transfer in progress was taken back.
	errWithdrawn = errors.New("tcp: region closed while a transfer used it")
	// errRefused: a request was refused; the endpoint is broken already and
	// the connection has nothing more to say.
	errRefused = errors.New("tcp: an earlier request was refused")
)

// endpoint is one side of a connection.
type endpoint struct {
	dom     *Domain
	queue   *queue
	cfg     rdma.EndpointConfig
	id      uint64
	nonce   [nonceSize]byte
	started time.Time // zero of the int64 nanoseconds below

	connecting bool // Connect was called; guarded by mu
	connected  atomic.Bool
	broken     atomic.Bool // set once, under mu
	closed     atomic.Bool
	dead       chan struct{} // closed when broken

	sendInUse atomic.Int32 // posted and not polled (or silently done)
	recvInUse atomic.Int32
	released  atomic.Bool // reservation given back to queue

	inbox inbox // connections that the peer opened, until Connect takes them

	// peerTimeout is the peer's OpTimeout: how long its requests may wait here
	// for a posted receive. Set by Connect.
	peerTimeout time.Duration

	// Requester: slots[seq%len] for seq in [tail, next).
	mu        sync.Mutex
	cause     error // why broken
	slots     []slot
	tail      uint64 // oldest not done
	next      uint64 // sequence number of the next Post
	acked     uint64 // everything up to here is done at the peer
	busySince int64  // when tail last became the oldest of a non-empty ring
	ask       []*askLink
	lastLocal *region // of the previous request: usually the same
	rungAt    int64   // when Post last sent; see Post
	held      int     // requests since
	heldBytes int

	// Responder.
	responses responses
	answer    []*answerLink

	recvMu     sync.Mutex
	recvs      []rdma.Recv // ring
	recvHead   int
	recvCount  int
	recvClosed bool
	taken      rdma.Recv // by the request that is being executed
	hasTaken   bool

	starvedSince atomic.Int64 // when a request met no posted receive, 0: none waits
	lingering    atomic.Int64 // since when a refused peer is waited for, 0: none

	live liveness // touched by the ticker alone
}

// slot is a posted request.
type slot struct {
	id       uint64
	op       rdma.Op
	signaled bool
	imm      uint32
	local    []byte
	guard    *region // holds local, nil where inline
	key      uint64
	addr     uint64
	operand  [16]byte // atomics
	inline   [inlineMax]byte
	unsent   int    // parts not yet handed to a socket
	claimed  uint32 // bytes of a read whose frames have begun to land
	got      uint32 // and landed: the slot is in use until got reaches len(local)
}

func newEndpoint(d *Domain, q *queue, cfg rdma.EndpointConfig) *endpoint {
	ep := &endpoint{
		dom: d, queue: q, cfg: cfg, started: time.Now(),
		dead:  make(chan struct{}),
		slots: make([]slot, max(cfg.SendDepth, 1)),
		tail:  1,
		next:  1,
		recvs: make([]rdma.Recv, max(cfg.RecvDepth, 1)),
	}
	_, _ = rand.Read(ep.nonce[:]) // never fails, by its contract
	ep.inbox.arrived = make(chan struct{}, 1)
	ep.responses.turn = 1
	return ep
}

func (ep *endpoint) slot(seq uint64) *slot { return &ep.slots[seq%uint64(len(ep.slots))] }

func (ep *endpoint) now() int64 { return int64(time.Since(ep.started)) }

// polled takes a completion's request off the depth.
func (ep *endpoint) polled(op rdma.Op) {
	if op == rdma.OpRecv || op == rdma.OpRecvImm {
		ep.recvInUse.Add(-1)
	} else {
		ep.sendInUse.Add(-1)
	}
	if ep.closed.Load() {
		ep.maybeRelease()
	}
}

// maybeRelease gives the queue's room back once nothing of a closed endpoint
// can occupy it any more.
func (ep *endpoint) maybeRelease() {
	if ep.sendInUse.Load() == 0 && ep.recvInUse.Load() == 0 && !ep.released.Swap(true) {
		ep.queue.release(ep.cfg.SendDepth + ep.cfg.RecvDepth)
	}
}

func (ep *endpoint) failure(op rdma.Op, status rdma.Status, cause error) *rdma.Error {
	return &rdma.Error{Op: op, Peer: ep.cfg.Peer, Status: status, Cause: cause}
}

// gone fails the endpoint because its connection ended or went wrong.
func (ep *endpoint) gone(err error) {
	ep.fail(rdma.StatusPeerGone, 0, err)
	ep.closeLinks()
}

// lost is gone with the connection that is to blame. What came damaged is counted and told.
func (ep *endpoint) lost(p *port, err error) {
	if !errors.Is(err, wire.ErrSum) {
		ep.gone(fmt.Errorf("tcp: connection to %v: %w", p.peer, err))
		return
	}
	ep.dom.stats.damaged.Add(1)
	ep.fail(rdma.StatusDamaged, 0, fmt.Errorf("tcp: connection to %v: %w", p.peer, err))
	ep.closeLinks()
	if fn := ep.dom.cfg.OnReject; fn != nil {
		fn(p.peer, err)
	}
}

// fail breaks the endpoint: request seq (0: the oldest, or where there is none
// the oldest receive) completes with status, everything else is flushed.
// Afterwards no goroutine touches the user's buffers. Links stay open: the
// caller decides when they close.
func (ep *endpoint) fail(status rdma.Status, seq uint64, cause error) {
	ep.mu.Lock()
	if ep.broken.Load() {
		ep.mu.Unlock()
		return
	}
	ep.cause = ep.failure(rdma.OpSend, status, cause)
	ep.broken.Store(true)
	close(ep.dead)
	ep.mu.Unlock()

	// Whoever is inside a system call on user memory leaves it; who comes
	// later sees broken.
	ep.dom.placing.Lock()
	//lint:ignore SA2001 a barrier, not a section
	ep.dom.placing.Unlock()

	ep.mu.Lock()
	if seq < ep.tail || seq >= ep.next {
		seq = ep.tail
	}
	told := ep.tail < ep.next
	for s := ep.tail; s < ep.next; s++ {
		st := rdma.StatusFlushed
		if s == seq {
			st = status
		}
		sl := ep.slot(s)
		ep.complete(rdma.Completion{ID: sl.id, Op: sl.op, Status: st}, cause)
		sl.local, sl.guard = nil, nil
	}
	ep.tail = ep.next
	ep.mu.Unlock()

	ep.recvMu.Lock()
	ep.recvClosed = true
	if ep.hasTaken {
		ep.recvHead = (ep.recvHead + len(ep.recvs) - 1) % len(ep.recvs)
		ep.recvs[ep.recvHead] = ep.taken
		ep.recvCount++
		ep.taken, ep.hasTaken = rdma.Recv{}, false
	}
	for ; ep.recvCount > 0; ep.recvCount-- {
		st := rdma.StatusFlushed
		if !told {
			st, told = status, true
		}
		ep.complete(rdma.Completion{ID: ep.recvs[ep.recvHead].ID, Op: rdma.OpRecv, Status: st}, cause)
		ep.recvs[ep.recvHead] = rdma.Recv{}
		ep.recvHead = (ep.recvHead + 1) % len(ep.recvs)
	}
	ep.recvMu.Unlock()
	ep.responses.stopped.Store(true)
}

// complete pushes one completion, with its error where it has one.
func (ep *endpoint) complete(c rdma.Completion, cause error) {
	c.Endpoint = ep
	switch c.Status {
	case rdma.StatusOK:
		ep.dom.stats.completed.Add(1)
	case rdma.StatusFlushed:
		ep.dom.stats.flushed.Add(1)
		c.Err = ep.failure(c.Op, c.Status, cause)
	default:
		ep.dom.stats.failed.Add(1)
		c.Err = ep.failure(c.Op, c.Status, cause)
	}
	ep.queue.push(c)
}

func (ep *endpoint) closeLinks() {
	for _, l := range ep.ask {
		l.p.close()
	}
	for _, l := range ep.answer {
		l.p.close()
	}
}

// Close flushes what is outstanding and closes the connections. Requests of
// the peer that are done are acknowledged first.
func (ep *endpoint) Close() error {
	if ep.closed.Swap(true) {
		return nil
	}
	ep.dom.mu.Lock()
	delete(ep.dom.endpoints, ep.id)
	ep.dom.past.add(ep)
	ep.dom.stats.liveEndpoints.Add(-1)
	ep.dom.mu.Unlock()
	ep.inbox.close()
	if ep.connected.Load() {
		for _, l := range ep.answer {
			l.acknowledge()
		}
	}
	ep.fail(rdma.StatusFlushed, 0, fmt.Errorf("tcp: endpoint to %s: %w", ep.cfg.Peer, rdma.ErrClosed))
	if ep.connected.Load() {
		ep.closeLinks()
	}
	ep.maybeRelease()
	return nil
}

// Map is not possible over a wire.
func (ep *endpoint) Map(rdma.RemoteRange) ([]byte, error) {
	return nil, fmt.Errorf("tcp: map memory of %s: %w", ep.cfg.Peer, rdma.ErrNotSupported)
}

// Enter is not possible, as Map is not.
func (ep *endpoint) Enter(r rdma.RemoteRange) ([]byte, error) { return ep.Map(r) }

// Leave has no Enter before it.
func (ep *endpoint) Leave() {}
