package psmsg

import (
	"encoding/binary"
	"fmt"
)

// Code is a request's outcome.
type Code uint8

const (
	CodeOK Code = iota
	// CodeDuplicate: this push was applied before; all is well.
	CodeDuplicate
	// CodeStaleTicket: the lane has forgotten the ticket; push with keys.
	CodeStaleTicket
	// CodeNoTable: the lane has no table of that number.
	CodeNoTable
	// CodeBadRequest: lengths or flags make no sense for the table.
	CodeBadRequest
	// CodeNoMemory: the table may not grow; nothing was changed.
	CodeNoMemory
	// CodeClock: a request at a clock that its worker cannot be at.
	CodeClock
	// CodeStorage: rows on a disk could not be read, or it is full; nothing was
	// changed.
	CodeStorage
	codeEnd
)

func (c Code) String() string {
	names := [...]string{"ok", "duplicate", "stale ticket", "no such table", "bad request", "out of memory", "impossible clock", "storage failed"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// ReplyBytes is the encoded size of a Reply.
const ReplyBytes = 48

// Reply answers the request in the slot of the same number.
//
//	 0  version u8 | code u8 | 0 u16 | slot u32
//	 8  seq u64      of the request, so that a late answer is recognised
//	16  ticket u64   of a pull that may be pushed by ticket; 0 = none
//	24  version u64  of the lane: pushes applied to the table
//	32  rows u32     created (pull), refused as not finite (push) | 0 u32
//	40  check u64
type Reply struct {
	Code    Code
	Slot    uint32
	Seq     uint64
	Ticket  uint64
	Version uint64
	Rows    uint32
}

// Encode writes r into the first ReplyBytes of b.
func (r *Reply) Encode(b []byte) {
	b = b[:ReplyBytes]
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = layout, byte(r.Code), 0, 0
	le.PutUint32(b[4:], r.Slot)
	le.PutUint64(b[8:], r.Seq)
	le.PutUint64(b[16:], r.Ticket)
	le.PutUint64(b[24:], r.Version)
	le.PutUint32(b[32:], r.Rows)
	le.PutUint32(b[36:], 0)
	le.PutUint64(b[40:], fold(b[:40]))
}

// Decode reads a reply.
func (r *Reply) Decode(b []byte) error {
	if len(b) < ReplyBytes {
		return fmt.Errorf("psmsg: reply of %d bytes, a header has %d", len(b), ReplyBytes)
	}
	b = b[:ReplyBytes]
	le := binary.LittleEndian
	if got, want := le.Uint64(b[40:]), fold(b[:40]); got != want {
		return fmt.Errorf("psmsg: reply check %#x, its bytes give %#x: the slot was torn or overwritten", got, want)
	}
	if b[0] != layout {
		return fmt.Errorf("psmsg: reply in layout %d, this client reads %d", b[0], layout)
	}
	r.Code = Code(b[1])
	if r.Code >= codeEnd {
		return fmt.Errorf("psmsg: unknown reply code %d", b[1])
	}
	r.Slot = le.Uint32(b[4:])
	r.Seq = le.Uint64(b[8:])
	r.Ticket = le.Uint64(b[16:])
	r.Version = le.Uint64(b[24:])
	r.Rows = le.Uint32(b[32:])
	return nil
}
