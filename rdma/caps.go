package rdma

// OpSet is a set of Ops.
type OpSet uint16

// Ops builds an OpSet.
func Ops(ops ...Op) OpSet {
	var s OpSet
	for _, o := range ops {
		s |= 1 << o
	}
	return s
}

// Has reports whether o is in s.
func (s OpSet) Has(o Op) bool { return s&(1<<o) != 0 }

// Caps describes a Domain. Nobody probes by calling: what is not here is not
// offered, and Post refuses it with ErrNotSupported.
type Caps struct {
	Transport string // "sim", "shm", "tcp", "verbs", "quic"
	Device    string // device or interface, "" where there is none
	Ops       OpSet
	// Mapped: Endpoint.Map gives the peer's memory.
	Mapped       bool
	DeviceMemory bool
	MaxInline    int // bytes
	MaxMessage   int // bytes of one request; larger transfers are cut by the user
	MaxDepth     int // requests per endpoint and direction
	SpinMicros   int // how long Queue.Wait spins before it blocks
	NUMANode     int // -1 unknown
	// CrossHost: peers may be on other machines.
	CrossHost bool
}

// Stats counts since the Domain was opened.
type Stats struct {
	SentBytes, ReceivedBytes           uint64
	Posted, Completed, Failed, Flushed uint64
	LiveRegions, LiveEndpoints         int64
	// CopiedOutBytes and CopiedInBytes are payload that user space moved into
	// or out of a buffer that is neither source nor destination: by the side
	// that gives the bytes and by the side that takes them. The one move from
	// source to destination is the wire and does not count; see
	// docs/zero-copy.md.
	CopiedOutBytes, CopiedInBytes uint64
	// Damaged counts connections that ended because bytes arrived with a wrong checksum.
	Damaged uint64
}

// CopiedBytes is both directions.
func (s Stats) CopiedBytes() uint64 { return s.CopiedOutBytes + s.CopiedInBytes }
