package ring

import (
	"encoding/binary"
	"errors"
	"fmt"

	"psrt/nccl/coll"
	"psrt/rdma"
)

// errProtocol: a word that no rank of this program says.
var errProtocol = errors.New("ring: a message makes no sense: run the same psrt everywhere")

type word uint8

const (
	wordBegin word = iota + 1
	wordDone
	wordAdded  // what this rank owns is added in its part; see levels.go
	wordResult // the results of what this rank finishes are written
)

// header is a message's first bytes; the block that travels within begin follows.
//
//	0  magic          4  kind   8  call           32  send: key, address, length
//	2  version        5  type  16  bytes          56  recv: likewise
//	3  word           6  op    24  root
//	                  7  flags 28  payload bytes    80  next: likewise
type header struct {
	word       word
	kind       coll.Kind
	typ        coll.Type
	op         coll.Op
	absent     bool
	within     bool // the block is in the message
	direct     bool // the block was written before it; see direct.go
	levels     bool // it is added inside hosts first
	call       uint64
	bytes      uint64 // what must be the same at all ranks
	root       uint32
	payload    uint32
	send, recv rdma.RemoteRange
	next       rdma.RemoteRange // where the other may write the block of the next call
}

const (
	headerBytes   = 104
	magic         = 0x4370
	headerVersion = 2
	flagAbsent    = 1
	flagWithin    = 2
	flagDirect    = 4
	flagLevels    = 8
)

func (h *header) encode(b []byte) {
	le := binary.LittleEndian
	le.PutUint16(b, magic)
	flags := byte(0)
	if h.absent {
		flags |= flagAbsent
	}
	if h.within {
		flags |= flagWithin
	}
	if h.direct {
		flags |= flagDirect
	}
	if h.levels {
		flags |= flagLevels
	}
	b[2], b[3], b[4], b[5], b[6], b[7] = headerVersion, byte(h.word), byte(h.kind), byte(h.typ), byte(h.op), flags
	le.PutUint64(b[8:], h.call)
	le.PutUint64(b[16:], h.bytes)
	le.PutUint32(b[24:], h.root)
	le.PutUint32(b[28:], h.payload)
	for i, r := range []rdma.RemoteRange{h.send, h.recv, h.next} {
		le.PutUint64(b[32+24*i:], r.Key)
		le.PutUint64(b[40+24*i:], r.Addr)
		le.PutUint64(b[48+24*i:], r.Len)
	}
}

// decode checks what does not depend on the call.
func (h *header) decode(b []byte) error {
	le := binary.LittleEndian
	if len(b) < headerBytes || le.Uint16(b) != magic || b[2] != headerVersion {
		return fmt.Errorf("%w: %d bytes that begin with %x", errProtocol, len(b), b[:min(len(b), 4)])
	}
	*h = header{word: word(b[3]), kind: coll.Kind(b[4]), typ: coll.Type(b[5]), op: coll.Op(b[6]),
		absent: b[7]&flagAbsent != 0, within: b[7]&flagWithin != 0, direct: b[7]&flagDirect != 0, levels: b[7]&flagLevels != 0,
		call: le.Uint64(b[8:]), bytes: le.Uint64(b[16:]), root: le.Uint32(b[24:]), payload: le.Uint32(b[28:])}
	for i, r := range []*rdma.RemoteRange{&h.send, &h.recv, &h.next} {
		*r = rdma.RemoteRange{Key: le.Uint64(b[32+24*i:]), Addr: le.Uint64(b[40+24*i:]), Len: le.Uint64(b[48+24*i:])}
	}
	switch {
	case h.word < wordBegin || h.word > wordResult, !h.kind.Known(), b[7]&^(flagAbsent|flagWithin|flagDirect|flagLevels) != 0, h.op > coll.Avg,
		h.kind != coll.Barrier && h.typ.Size() == 0:
		return fmt.Errorf("%w: word %d of kind %d, type %d, operation %d, flags %#x", errProtocol, b[3], b[4], b[5], b[6], b[7])
	case uint64(h.payload) != uint64(len(b)-headerBytes):
		return fmt.Errorf("%w: a block of %d bytes in a message of %d", errProtocol, h.payload, len(b))
	}
	return nil
}

// differs says how another rank's call is not the one made here, "" if it is.
func (h *header) differs(mine *header) string {
	switch {
	case h.call != mine.call:
		return fmt.Sprintf("it is at call %d", h.call)
	case h.kind != mine.kind:
		return fmt.Sprintf("%s, here it is %s", h.kind, mine.kind)
	case h.kind == coll.Barrier:
		return ""
	case h.typ != mine.typ:
		return fmt.Sprintf("type %d, here it is %d", h.typ, mine.typ)
	case h.kind.Reduces() && h.op != mine.op:
		return fmt.Sprintf("operation %d, here it is %d", h.op, mine.op)
	case h.bytes != mine.bytes:
		return fmt.Sprintf("%d bytes, here they are %d", h.bytes, mine.bytes)
	case h.root != mine.root:
		return fmt.Sprintf("root %d, here it is %d", h.root, mine.root)
	}
	return ""
}
