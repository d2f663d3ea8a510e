package rdma

import "fmt"

// Op is the kind of a work request.
type Op uint8

const (
	OpSend Op = iota + 1
	OpWrite
	OpWriteImm
	OpRead
	OpFetchAdd
	OpCompareSwap
	OpRecv    // only in completions: a send has arrived
	OpRecvImm // only in completions: a write with immediate has arrived
)

func (o Op) String() string {
	names := [...]string{"?", "send", "write", "write-imm", "read", "fetch-add", "compare-swap", "recv", "recv-imm"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// WR is a work request.
//
//	op            Local                         Remote          other fields
//	send          the message                   -               -
//	write         source                        destination     -
//	write-imm     source, may be empty          destination     Imm
//	read          destination                   source          -
//	fetch-add     8 bytes, gets the old value   8 bytes, aligned  Add
//	compare-swap  8 bytes, gets the old value   8 bytes, aligned  Compare, Swap
//
// Local must lie inside a Region of the endpoint's Domain, unless it is at
// most Caps.MaxInline long and Inline is set: then its bytes are taken before
// Post returns. len(Local) must equal Remote.Len, Remote.Len 0 being allowed
// for write and write-imm. Atomics work on the host's byte order.
type WR struct {
	ID       uint64 // returned in the completion
	Op       Op
	Signaled bool // completion wanted on success; failures always complete
	Inline   bool
	Imm      uint32
	Local    []byte
	Remote   RemoteRange
	Add      uint64
	Compare  uint64
	Swap     uint64
}

// Recv is a posted receive. Buf gets the bytes of a send (a longer send fails
// at both sides with StatusLocalLength / StatusRemoteInvalid); it may be nil
// where only writes with immediate are expected.
type Recv struct {
	ID  uint64
	Buf []byte
}

// Completion reports a finished work request or an arrival.
type Completion struct {
	ID       uint64
	Op       Op
	Status   Status
	Imm      uint32 // OpRecvImm
	Bytes    int    // moved; for OpRecv and OpRecvImm, arrived
	Endpoint Endpoint
	// Err is set when Status is not StatusOK: an *Error with peer and remedy.
	Err error
}
