package rdma

import (
	"errors"
	"fmt"
)

var (
	ErrClosed       = errors.New("rdma: closed")
	ErrDeadline     = errors.New("rdma: deadline passed")
	ErrNotSupported = errors.New("rdma: not supported by this transport")
	// ErrInvalid marks requests refused at once by Post or Register: the
	// caller's fault, nothing was sent.
	ErrInvalid = errors.New("rdma: invalid request")
	// ErrInside is in what Close of an endpoint or a region gives where the peer was stopped
	// in the middle of an access: it may end that access whenever it goes on.
	ErrInside = errors.New("the peer is stopped in the middle of an access: do not use the memory lent to it again")
)

// Status is the outcome of a request, in the verbs' terms.
type Status uint8

const (
	StatusOK            Status = iota
	StatusFlushed              // queued behind a failed request or a close
	StatusLocalLength          // receive buffer too small
	StatusLocalProt            // Local not registered
	StatusRemoteAccess         // key, range or right refused by the peer
	StatusRemoteInvalid        // peer could not take the request
	StatusRetryExceeded        // peer did not answer: dead, stopped or unreachable
	StatusRNR                  // receiver had no receive posted for too long
	StatusPeerGone             // peer closed the connection or died
	StatusDamaged              // what came from the peer has a wrong checksum
)

func (s Status) String() string {
	names := [...]string{"ok", "flushed", "local length error", "local protection error",
		"remote access error", "remote invalid request", "retry exceeded", "receiver not ready", "peer gone", "damaged on the way"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// remedy is the next thing a tired operator should do.
func (s Status) remedy() string {
	switch s {
	case StatusFlushed:
		return "see the first error of this endpoint"
	case StatusLocalLength, StatusRemoteInvalid:
		return "the message is longer than the receive posted for it: both sides must run the same psrt version"
	case StatusLocalProt:
		return "register the buffer before posting it, and close the region after its last completion"
	case StatusRemoteAccess:
		return "the peer withdrew or never granted this memory: reconnect to learn its new regions"
	case StatusRetryExceeded:
		return "peer unreachable, stopped or overloaded: check that its process runs and run psrt doctor on both ends"
	case StatusRNR:
		return "the peer posted no receive in time: check that its process is not stopped or stuck; if it runs, its credits are wrong: please report it"
	case StatusPeerGone:
		return "look at the peer's log; reconnect when it is back"
	case StatusDamaged:
		return "reconnect; if it happens again, check cables, switches and network cards on the path (ethtool -S), and the hosts' memory"
	}
	return ""
}

// Error is a failed request or connection.
type Error struct {
	Op        Op
	Peer      string
	QPN       uint32 // queue pair number, 0 where there is none
	Status    Status
	VendorErr uint32
	Cause     error // may be nil
}

func (e *Error) Error() string {
	s := fmt.Sprintf("rdma: %s to %s: %s", e.Op, e.Peer, e.Status)
	if e.QPN != 0 {
		s += fmt.Sprintf(" (queue pair %d, vendor error %#x)", e.QPN, e.VendorErr)
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	// A cause of this kind has its own remedy, nearer to the fault.
	var first *Error
	if r := e.Status.remedy(); r != "" && !errors.As(e.Cause, &first) {
		s += "; " + r
	}
	return s
}

func (e *Error) Unwrap() error { return e.Cause }

// Is lets errors.Is match another *Error by Status alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Status == e.Status && t.Peer == "" && t.Cause == nil
}
