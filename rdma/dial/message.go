package dial

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"psrt/rdma/wire"
)

// Version of the handshake and of calls. Both sides must speak the same.
//
// 1: the first. 2: offers with rails, drawn in doc.go.
const Version = 2

// ErrVersion says that the two programs do not speak the same protocol.
var ErrVersion = errors.New("dial: protocol version differs")

// ErrRefused marks a peer's refusal in words of its own.
var ErrRefused = errors.New("dial: refused by the peer")

// ErrFinal is in errors of a Dial that would fail the same way if it were tried again:
// the peer said so when it refused, or speaks another version.
var ErrFinal = errors.New("dial: for good")

// finalError marks an error, and leaves its words alone.
type finalError struct{ error }

func (e finalError) Unwrap() []error { return []error{e.error, ErrFinal} }

// Final marks the reason of a Reject as one that another try does not change.
func Final(err error) error { return finalError{err} }

// Kinds of control frames; every payload is one JSON object.
const (
	kindHello = 1 + iota
	kindTry
	kindTried
	kindOutcome
	kindReady
	kindRefuse
	kindRequest
	kindResponse
)

const (
	maxHandshake = 8 << 20
	// MaxEndpoints bounds the endpoints of one connection.
	MaxEndpoints = 4096
	maxAddress   = 1 << 10
)

type helloMsg struct {
	Version int   `json:"version"` // first: all later versions must keep it
	Terms   terms `json:"terms"`
	Count   int   `json:"count"`
	// Twins says that the dialer would make a second endpoint for each. A listener that
	// does not know of it takes none.
	Twins bool   `json:"twins,omitempty"`
	Hello []byte `json:"hello"`
}

type tryMsg struct {
	Transport string   `json:"transport"`
	Reason    string   `json:"reason"`
	Addresses [][]byte `json:"addresses"`
	// Rails are the dialer's own, by the place in its offer, for each endpoint;
	// empty where the transport has one domain.
	Rails []int `json:"rails,omitempty"`
	// Twins says that the second half of Addresses (and of Rails) are twins'.
	Twins bool `json:"twins,omitempty"`
}

// triedMsg and outcomeMsg: Error is about the transport, which the listener may
// answer with another try; Fatal ends the handshake.
type triedMsg struct {
	Addresses [][]byte `json:"addresses"`
	Error     string   `json:"error"`
	Fatal     bool     `json:"fatal"`
}

type outcomeMsg struct {
	Error string `json:"error"`
}

type readyMsg struct {
	Reason string `json:"reason"`
	Reply  []byte `json:"reply"`
}

type refuseMsg struct {
	Version int    `json:"version"`
	Error   string `json:"error"`
	Final   bool   `json:"final,omitempty"`
}

func checkAddresses(list [][]byte, count int) error {
	if len(list) != count {
		return fmt.Errorf("dial: the peer sent %d endpoint addresses, %d were agreed: %w", len(list), count, wire.ErrFrame)
	}
	for _, a := range list {
		if len(a) > maxAddress {
			return fmt.Errorf("dial: endpoint address of %d bytes, the limit is %d: %w", len(a), maxAddress, wire.ErrFrame)
		}
	}
	return nil
}

func sendMsg(c net.Conn, kind uint8, msg any, deadline time.Time) error {
	f, err := wire.NewJSON(kind, msg, maxHandshake)
	if err != nil {
		return err
	}
	defer f.Free()
	return f.Write(c, deadline)
}

// readMsg expects one of the kinds in into and decodes it. A refusal that was
// not expected becomes an error.
func readMsg(c net.Conn, deadline time.Time, into map[uint8]any) (uint8, error) {
	h, b, err := wire.ReadFrame(c, maxHandshake, deadline)
	if err != nil {
		return 0, err
	}
	if msg, ok := into[h.Kind]; ok {
		if err := json.Unmarshal(b, msg); err != nil {
			return 0, fmt.Errorf("%w: kind %d: %w", wire.ErrFrame, h.Kind, err)
		}
		return h.Kind, nil
	}
	if h.Kind != kindRefuse {
		return 0, fmt.Errorf("%w: kind %d at this point of the handshake", wire.ErrFrame, h.Kind)
	}
	var r refuseMsg
	if err := json.Unmarshal(b, &r); err != nil {
		return 0, fmt.Errorf("%w: refusal: %w", wire.ErrFrame, err)
	}
	if r.Version != Version {
		return 0, versionError(r.Version)
	}
	err = fmt.Errorf("%w: %s", ErrRefused, r.Error)
	if r.Final {
		err = Final(err)
	}
	return 0, err
}

func versionError(theirs int) error {
	return Final(fmt.Errorf("%w: the peer speaks version %d, this program %d: run the same psrt on both ends", ErrVersion, theirs, Version))
}
