package psmsg

import (
	"encoding/binary"
	"fmt"

	"psrt/rdma"
)

// layout is the version in headers: that of the protocol in which a layout below
// changed last. Which protocol a connection speaks is settled when it is made, not
// message by message; see Version.
const layout = 4

// Kind says what a request asks for.
type Kind uint8

const (
	KindPull Kind = iota + 1
	KindPush
	KindPullDense
	KindPushDense
	// KindAnnounce names rows that a later step will pull, so that they can be read
	// from a disk by then. Clock is that step. Nothing depends on it: it may be
	// dropped at both ends.
	KindAnnounce
	kindEnd
)

func (k Kind) String() string {
	names := [...]string{"?", "pull", "push", "pull-dense", "push-dense", "announce"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Flags of a request.
type Flags uint16

const (
	// FlagCreate: a pull makes the rows that do not exist. Without it their
	// values are zeros and nothing is stored.
	FlagCreate Flags = 1 << iota
	// FlagNoClock: answer at once whatever the clocks say (evaluation).
	FlagNoClock
	// FlagTicket: a push names the rows by the ticket of an earlier pull
	// instead of by keys.
	FlagTicket
	// FlagInlineKeys, FlagInlineGrads: that part of the payload lies behind the
	// header in the slot (keys first), whether the write that brought the header
	// brought it, too, or an earlier one.
	FlagInlineKeys
	FlagInlineGrads
	// FlagTick: this push is the worker's last to this lane for its clock.
	// Requests of one endpoint arrive in order, so the lane has all the others.
	FlagTick
	// FlagNoValues: a pull makes rows and brings them near, and sends nothing.
	FlagNoValues
	// FlagPacked: what a push carries is a payload of sched/compress, and Values.Len its
	// length. Of dense values it has the lane's blocks alone. Since PackedSince.
	FlagPacked
	flagsEnd
)

// RequestBytes is the encoded size of a Request.
const RequestBytes = 88

// The shape of the rings, part of the protocol version.
const (
	// Slots is the number of requests one worker may have at one lane.
	Slots = 8
	// SlotBytes holds a request header and, for small requests, its payload:
	// the keys of 8000 rows, or a few hundred gradients.
	SlotBytes = 64 << 10
	// ChainedSlotBytes is what a slot of a group's ring holds: groups are many, and
	// requests to each the smaller.
	ChainedSlotBytes = 8 << 10
	// ReplySlotBytes is the distance of reply slots: a cache line each.
	ReplySlotBytes = 64
)

// MaxRows bounds the rows of one request: 64 Mi rows are 512 MiB of keys.
const MaxRows = 64 << 20

// Request asks one lane for something.
//
//	 0  version u8 | kind u8 | flags u16 | slot u32
//	 8  seq u64      push: rises by one for every push of (worker, lane);
//	                pull from a group: the least version that may answer it
//	16  clock u64    the step this request belongs to
//	24  table u32    of a dense push: which part of its worker's it is, from 1; 0: of none
//	    rows u32
//	32  ticket u64
//	40  keys.Key u64 | keys.Addr u64       rows x 8 bytes
//	56  values.Key u64 | values.Addr u64   rows x dim x 4 bytes
//	72  values.Len u64
//	80  check u64    xor-multiply fold of the bytes before it
//
// The lengths of keys and values follow from rows and the table's dimension;
// values.Len is carried as well so that a client with another idea of the
// dimension is refused instead of overwritten.
type Request struct {
	Kind   Kind
	Flags  Flags
	Slot   uint32
	Seq    uint64
	Clock  uint64
	Table  uint32
	Rows   uint32
	Ticket uint64
	Keys   rdma.RemoteRange
	Values rdma.RemoteRange
}

// Encode writes r into the first RequestBytes of b.
func (r *Request) Encode(b []byte) {
	b = b[:RequestBytes]
	b[0], b[1] = layout, byte(r.Kind)
	le := binary.LittleEndian
	le.PutUint16(b[2:], uint16(r.Flags))
	le.PutUint32(b[4:], r.Slot)
	le.PutUint64(b[8:], r.Seq)
	le.PutUint64(b[16:], r.Clock)
	le.PutUint32(b[24:], r.Table)
	le.PutUint32(b[28:], r.Rows)
	le.PutUint64(b[32:], r.Ticket)
	le.PutUint64(b[40:], r.Keys.Key)
	le.PutUint64(b[48:], r.Keys.Addr)
	le.PutUint64(b[56:], r.Values.Key)
	le.PutUint64(b[64:], r.Values.Addr)
	le.PutUint64(b[72:], r.Values.Len)
	le.PutUint64(b[80:], fold(b[:80]))
}

// Decode reads a request and checks all that can be checked without knowing
// the tables.
func (r *Request) Decode(b []byte) error {
	if len(b) < RequestBytes {
		return fmt.Errorf("psmsg: request of %d bytes, a header has %d", len(b), RequestBytes)
	}
	b = b[:RequestBytes]
	le := binary.LittleEndian
	if got, want := le.Uint64(b[80:]), fold(b[:80]); got != want {
		return fmt.Errorf("psmsg: request check %#x, its bytes give %#x: the slot was torn or overwritten", got, want)
	}
	if b[0] != layout {
		return fmt.Errorf("psmsg: request in layout %d, this server reads %d", b[0], layout)
	}
	r.Kind, r.Flags = Kind(b[1]), Flags(le.Uint16(b[2:]))
	if r.Kind == 0 || r.Kind >= kindEnd {
		return fmt.Errorf("psmsg: unknown request kind %d", b[1])
	}
	if r.Flags >= flagsEnd {
		return fmt.Errorf("psmsg: unknown request flags %#x", uint16(r.Flags))
	}
	r.Slot = le.Uint32(b[4:])
	r.Seq = le.Uint64(b[8:])
	r.Clock = le.Uint64(b[16:])
	r.Table = le.Uint32(b[24:])
	r.Rows = le.Uint32(b[28:])
	if r.Rows > MaxRows {
		return fmt.Errorf("psmsg: request of %d rows, at most %d: use smaller batches", r.Rows, MaxRows)
	}
	r.Ticket = le.Uint64(b[32:])
	r.Keys = rdma.RemoteRange{Key: le.Uint64(b[40:]), Addr: le.Uint64(b[48:]), Len: uint64(r.Rows) * 8}
	r.Values = rdma.RemoteRange{Key: le.Uint64(b[56:]), Addr: le.Uint64(b[64:]), Len: le.Uint64(b[72:])}
	return nil
}

// fold is a cheap check of a few words: it catches torn and misplaced slots,
// not an adversary (who has the token anyway).
func fold(b []byte) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for ; len(b) >= 8; b = b[8:] {
		h ^= binary.LittleEndian.Uint64(b)
		h *= 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	return h
}
