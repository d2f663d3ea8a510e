package shm

import (
	"bytes"
	"fmt"
	"strings"

	"psrt/rdma"
)

// id is 128 random bits.
type id [16]byte

// address is what Endpoint.Address carries:
//
//	0   8  "psrtshm1"
//	8  16  endpoint: which of the domain's endpoints
//	24 16  nonce: shown by the peer to prove that it was given this address
//	40 16  domain
//	56  n  socket name, "@" first for an abstract one
type address struct {
	endpoint, nonce, domain id
	socket                  string
}

const (
	addressMagic  = "psrtshm1"
	addressFixed  = 56
	maxSocketName = 107
)

func (a *address) encode() []byte {
	b := append(make([]byte, 0, addressFixed+len(a.socket)), addressMagic...)
	b = append(b, a.endpoint[:]...)
	b = append(b, a.nonce[:]...)
	b = append(b, a.domain[:]...)
	return append(b, a.socket...)
}

func decodeAddress(b []byte) (a address, err error) {
	bad := func(why string) (address, error) {
		return address{}, fmt.Errorf("shm: peer address of %d bytes: %s: %w; both sides must run shm of the same psrt version", len(b), why, rdma.ErrInvalid)
	}
	if len(b) < addressFixed+2 || len(b) > addressFixed+maxSocketName {
		return bad(fmt.Sprintf("want %d to %d", addressFixed+2, addressFixed+maxSocketName))
	}
	if !bytes.HasPrefix(b, []byte(addressMagic)) {
		return bad("it does not begin with " + addressMagic)
	}
	copy(a.endpoint[:], b[8:])
	copy(a.nonce[:], b[24:])
	copy(a.domain[:], b[40:])
	a.socket = string(b[addressFixed:])
	if a.socket[0] != '@' && a.socket[0] != '/' || strings.ContainsRune(a.socket, 0) {
		return bad("no socket name in it")
	}
	return a, nil
}
