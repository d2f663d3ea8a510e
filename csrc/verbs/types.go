package verbs

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrUnavailable marks hosts (or builds) without a usable libibverbs.
var ErrUnavailable = errors.New("verbs: libibverbs is not available")

// Operations of a Send, numbered as in verbs.h.
const (
	OpSend uint32 = iota
	OpWrite
	OpWriteImm
	OpRead
	OpFetchAdd
	OpCompareSwap
)

// Flags of a Send.
const (
	Signaled uint32 = 1 << iota
	Inline          // take the bytes before PostSend returns
	Offset          // with Inline: Addr is an offset in PostSend's slice
)

// Send is one request. Addr is the address of the local bytes or, with Offset,
// where they begin in the slice that PostSend gets beside the requests.
type Send struct {
	ID                      uint64
	Addr                    uint64
	RemoteAddr              uint64
	Operand                 uint64 // fetch-add: addend; compare-swap: compare
	Swap                    uint64
	Length, LKey, RKey, Imm uint32
	Op, Flags               uint32
}

// Recv is one posted receive.
type Recv struct {
	ID, Addr     uint64
	Length, LKey uint32
}

// Done is one polled completion. Its operation is not told, because the
// library leaves it undefined in failures: the ID must lead to it.
type Done struct {
	ID        uint64
	Status    uint32 // Status...
	VendorErr uint32
	Bytes     uint32
	Imm       uint32
	QPN       uint32
	WithImm   uint32 // 1: a write or send with immediate has arrived
}

// Values of Done.Status that callers tell apart (enum ibv_wc_status).
const (
	StatusSuccess          = 0
	StatusLocalLength      = 1
	StatusLocalQPOperation = 2
	StatusLocalProtection  = 4
	StatusFlushed          = 5
	StatusLocalAccess      = 8
	StatusRemoteInvalid    = 9
	StatusRemoteAccess     = 10
	StatusRemoteOperation  = 11
	StatusRetryExceeded    = 12
	StatusRNRExceeded      = 13
	StatusRemoteAborted    = 16
	StatusResponseTimeout  = 20
)

// DeviceAttr is what a device offers.
type DeviceAttr struct {
	MaxMRSize                       uint64
	MaxQPWR, MaxCQE                 int32
	MaxResponderReads, MaxInitReads int32 // reads and atomics in flight per queue pair
	Atomics, Ports                  int32
	MaxSRQWR                        int32 // receives in one pool; 0: no pools
	OnDemand                        bool  // memory need not be pinned
}

// PortActive is the State of a port that passes data (enum ibv_port_state);
// LinkEthernet the LinkLayer of RoCE.
const (
	PortActive   = 4
	LinkEthernet = 2
)

// PortAttr describes a port. ActiveMTU is an enum: 1 is 256 bytes, 5 is 4096.
type PortAttr struct {
	State, ActiveMTU, LinkLayer, LID, GIDs, MaxMessage uint32
}

// Types of a GID (enum ibv_gid_type).
const (
	GIDTypeIB = iota
	GIDTypeRoCEv1
	GIDTypeRoCEv2
)

// GID is an entry of a port's table.
type GID struct {
	Raw     [16]byte
	Type    uint32
	IfIndex uint32 // of the network interface, 0 where there is none
	Index   uint32 // in the table
}

// Path is what connecting a queue pair needs of both sides.
type Path struct {
	DGID                                                      [16]byte
	DestQPN, DestPSN, PSN                                     uint32
	Port, GIDIndex, Global, DLID, MTU, TrafficClass, HopLimit uint32
	ReadsOut, ReadsIn, MinRNRTimer, Timeout, Retry, RNRRetry  uint32
}

// Event is an asynchronous event. Number is the queue pair or the port it is
// about, by Type.
type Event struct {
	Type   int32
	Number uint32
	Text   string
}

// Values of Event.Type (enum ibv_event_type).
const (
	EventCQError     = 0
	EventQPFatal     = 1
	EventQPRequest   = 2
	EventQPAccess    = 3
	EventDeviceFatal = 8
	EventPortActive  = 9
	EventPortError   = 10
	EventSRQError    = 14
	EventLastWQE     = 16
	EventGIDChange   = 18
)

// failed turns a C function's negative result into an error.
func failed(call string, result int) error {
	if result >= 0 {
		return nil
	}
	return fmt.Errorf("verbs: %s: %w", call, syscall.Errno(-result))
}
