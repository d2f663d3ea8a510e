package rdma

import "time"

// Access says what a Region's peers may do with it; local access is always
// read and write.
type Access uint8

const (
	AccessRemoteRead Access = 1 << iota
	AccessRemoteWrite
	AccessRemoteAtomic

	AccessLocal Access = 0
	AccessAll          = AccessRemoteRead | AccessRemoteWrite | AccessRemoteAtomic
)

// Memory is what can be registered: a range that does not move, is not Go
// heap, and stays mapped until the Region is closed. rdma/mem.Arena is one.
type Memory interface {
	Bytes() []byte
	// Descriptor gives the file behind the memory and the offset of its first
	// byte in it; ok is false for anonymous memory, which transports that share
	// memory by passing descriptors (shm) refuse.
	Descriptor() (fd int, offset int64, ok bool)
	// NUMANode is the node the pages are on, -1 when unknown or not pinned.
	NUMANode() int
}

// DeviceMemory is Memory of a GPU or another device, which Caps.DeviceMemory
// says can be registered. Bytes are then addresses of that device: they may be
// sliced and named in requests, and not be touched by the CPU.
type DeviceMemory interface {
	Memory
	// DMABuf is a dma-buf that holds the memory, and the offset of its first
	// byte in it; the caller keeps the descriptor. ok false: there is none, the
	// memory is registered by its address.
	DMABuf() (fd int, offset int64, ok bool)
}

// Domain is one device (or, without hardware, one way of reaching peers) on
// one NUMA node. It is the parent of its regions, queues and endpoints: Close
// closes them first. Safe for concurrent use.
type Domain interface {
	Caps() Caps
	// Register lends m to peers. purpose names the use in counters and errors.
	Register(m Memory, access Access, purpose string) (Region, error)
	// NewQueue makes a completion queue that holds at most depth completions
	// not yet polled. The endpoints attached to it must not be able to produce
	// more: the sum of their SendDepth and RecvDepth is checked against depth
	// when they are made.
	NewQueue(depth int) (Queue, error)
	NewEndpoint(EndpointConfig) (Endpoint, error)
	Stats() Stats
	Close() error
}

// EndpointConfig describes one side of a connection. SendDepth and RecvDepth
// bound the requests posted and not yet completed.
type EndpointConfig struct {
	Queue     Queue
	SendDepth int
	RecvDepth int
	// SharedRecv says that the endpoint's receives have no Buf. A transport may
	// then keep them in one pool with those of the queue's other endpoints that
	// say so; each endpoint still has its own depth, order and IDs.
	SharedRecv bool
	// Peer names the other side in errors; any text a person understands.
	Peer string
	// OpTimeout bounds how long one request may wait for the peer before it
	// fails with StatusRetryExceeded; 0 means 5 s.
	OpTimeout time.Duration
}

// RemoteRange names bytes of a peer's Region: what travels out of band or in
// a message so that the receiver can read or write there.
type RemoteRange struct {
	Key  uint64 // the region's remote key
	Addr uint64 // the region's own address of its first byte, plus an offset
	Len  uint64
}

// Slice narrows r to [off, off+n). It panics when that is not inside r, as
// slicing does.
func (r RemoteRange) Slice(off, n uint64) RemoteRange {
	if off > r.Len || n > r.Len-off {
		panic("rdma: RemoteRange.Slice out of range")
	}
	return RemoteRange{Key: r.Key, Addr: r.Addr + off, Len: n}
}

// Region is registered memory. Close ends every peer's right to it: later
// remote accesses fail with StatusRemoteAccess at the peer.
type Region interface {
	Bytes() []byte
	Remote() RemoteRange
	Close() error
}

// Endpoint is one side of a connection. Post and PostRecv may be called by
// one goroutine at a time (its lane); Close by any.
type Endpoint interface {
	// Address is what the peer's Connect needs; opaque, at most 1 KiB.
	Address() []byte
	// Connect joins this endpoint to the peer's. Both sides call it, in any
	// order; it returns when data can flow or the deadline passes.
	Connect(peer []byte, deadline time.Time) error
	// Post queues work requests in order. It accepts a prefix of wrs and
	// returns its length: fewer than len(wrs) with a nil error means that
	// SendDepth is reached (poll, then post the rest).
	Post(wrs []WR) (int, error)
	// PostRecv posts receives, consumed in order by sends and writes with
	// immediate. Same rule for the count.
	PostRecv(rs []Recv) (int, error)
	// Map gives the peer's memory itself where Caps.Mapped is set: loads and
	// stores on it are remote accesses without a request. It is valid until
	// the Endpoint or the peer's Region is closed; a transport keeps the pages
	// readable until then even when the peer dies. Data is not ordered against requests in flight,
	// but everything stored before a Post is seen by who polls its completion.
	Map(r RemoteRange) ([]byte, error)
	// Enter is Map for who stores: until Leave the peer's Close, of its Endpoint or of the
	// Region, waits, as for a request; once the peer has closed it fails. What is stored
	// so never comes after the peer's Close, but where that gave ErrInside. Preconditions: it is called by who posts,
	// what is between is short, does not wait, and calls nothing of the Endpoint.
	Enter(r RemoteRange) ([]byte, error)
	// Leave ends what an Enter without error began.
	Leave()
	Close() error
}

// Queue yields completions of the endpoints attached to it. One goroutine
// polls it.
type Queue interface {
	// Poll moves up to len(cs) completions into cs without blocking.
	Poll(cs []Completion) int
	// Wait returns when Poll may have something, or at the deadline with
	// ErrDeadline, or after Wake, or with ErrClosed. Spurious returns are
	// allowed. It spins briefly (Caps.SpinMicros), then blocks.
	Wait(deadline time.Time) error
	// Wake makes a Wait that is running or the next one return. Any goroutine.
	Wake()
	Close() error
}

// Attended is a Queue of a transport that moves bytes with the CPU and has a goroutine
// for that while nobody waits for the queue. Take is Poll that leaves them to it: for who
// has better to do than to move bytes, and sees what they brought a little later.
type Attended interface {
	Queue
	Take(cs []Completion) int
}
