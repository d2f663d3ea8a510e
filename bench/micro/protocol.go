package micro

import (
	"psrt/rdma"
	"psrt/rdma/secure"
)

// setup is the first message to the peer.
type setup struct {
	Transport string
	Bytes     int // of the region
	Nonce     uint64
}

// greeting is the peer's answer, and with RawAddress empty our reply to it.
type greeting struct {
	Address    []byte
	Region     rdma.RemoteRange
	RawAddress string `json:",omitempty"` // of the raw stream, where the limit needs one
	RawPeer    secure.Fingerprint
	Err        string `json:",omitempty"`
}

// The kinds of a phase.
const (
	kindLatency      = "lat"
	kindLatencyLimit = "lat-limit"
	kindFlag         = "flag" // ping-pong by plain writes that the peer finds in its memory
	kindWrite        = "write"
	kindRead         = "read"
	kindWriteLimit   = "write-limit"
	kindReadLimit    = "read-limit"
)

// phase asks the peer to play its part.
type phase struct {
	Kind       string
	Bytes      int
	Iterations int
	Seed       uint64
}

// slots is how much of the ring the phase moves.
func (p phase) slots() int {
	if p.Kind == kindLatency || p.Kind == kindLatencyLimit || p.Kind == kindFlag {
		return 1
	}
	return slots(p.Bytes)
}

// answer comes twice per phase: when the peer is ready, and, after our word
// that we are done, with what it found.
type answer struct {
	CPUSeconds float64
	Checksum   uint32
	Err        string `json:",omitempty"`
}
