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

// Stats counts since the Domain was opened. CopiedBytes are bytes that the
// transport itself moved in user space through a buffer that is neither
// source nor destination; the placement itself does not count.
type Stats struct {
	SentBytes, ReceivedBytes, CopiedBytes uint64
	Posted, Completed, Failed, Flushed    uint64
	LiveRegions, LiveEndpoints            int64
}
