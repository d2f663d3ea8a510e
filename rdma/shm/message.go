package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// kind of a control message.
type kind uint8

const (
	kindHello   kind = iota + 1 // dialer -> acceptor, with descriptors
	kindWelcome                 // acceptor -> dialer, with descriptors
	kindAsk                     // who wants a region
	kindGrant                   // its owner's answer, with a descriptor if open
	kindRevoke                  // its owner closed it
)

// message is a control message; all have one size. Layout, little-endian:
//
//	0   4  magic         16 16  from: sender's endpoint
//	4   1  kind          32 16  to: receiver's endpoint
//	5   1  access        48 16  nonce of the receiver's address
//	6   1  flags         64  8  key
//	7   1  zero          72  8  offset of the region in its file
//	8   4  slots         80  8  length of the region
//	12  4  zero
//
// One message is one packet of a SOCK_SEQPACKET socket, so there is no
// framing to lose.
type message struct {
	kind   kind
	access uint8
	flags  uint8
	slots  uint32 // of the sender's ring
	from   id
	to     id
	nonce  id
	key    uint64
	offset uint64
	length uint64
}

const (
	messageSize  = 88
	messageMagic = 0x314d5350 // "PSM1"

	// flagReceive: the region is wanted as the target of a send.
	flagReceive = 1
	// flagWritable: the granted descriptor can be mapped for writing.
	flagWritable = 2
)

var errMessage = errors.New("shm: malformed control message")

func (m *message) encode(b *[messageSize]byte) {
	clear(b[:])
	binary.LittleEndian.PutUint32(b[0:], messageMagic)
	b[4], b[5], b[6] = byte(m.kind), m.access, m.flags
	binary.LittleEndian.PutUint32(b[8:], m.slots)
	copy(b[16:], m.from[:])
	copy(b[32:], m.to[:])
	copy(b[48:], m.nonce[:])
	binary.LittleEndian.PutUint64(b[64:], m.key)
	binary.LittleEndian.PutUint64(b[72:], m.offset)
	binary.LittleEndian.PutUint64(b[80:], m.length)
}

func decodeMessage(b []byte) (m message, err error) {
	if len(b) != messageSize {
		return m, fmt.Errorf("%w: %d bytes, want %d", errMessage, len(b), messageSize)
	}
	if magic := binary.LittleEndian.Uint32(b); magic != messageMagic {
		return m, fmt.Errorf("%w: begins with %#x, want %#x: both sides must run the same psrt version", errMessage, magic, messageMagic)
	}
	m.kind, m.access, m.flags = kind(b[4]), b[5], b[6]
	if m.kind < kindHello || m.kind > kindRevoke {
		return m, fmt.Errorf("%w: kind %d", errMessage, m.kind)
	}
	m.slots = binary.LittleEndian.Uint32(b[8:])
	copy(m.from[:], b[16:])
	copy(m.to[:], b[32:])
	copy(m.nonce[:], b[48:])
	m.key = binary.LittleEndian.Uint64(b[64:])
	m.offset = binary.LittleEndian.Uint64(b[72:])
	m.length = binary.LittleEndian.Uint64(b[80:])
	return m, nil
}
