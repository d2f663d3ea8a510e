package tcp

import (
	"encoding/binary"
	"fmt"

	"psrt/rdma"
	"psrt/rdma/wire"
)

// Kinds of frames. Requests have the numbers of rdma.Op.
const (
	kindAck       = 32 + iota // ack alone
	kindNak                   // request seq failed with status; ack is what came before
	kindReadData              // bytes of request seq at offset
	kindAtomicOld             // 8 bytes: the value before
	kindHello     = 64
	kindWelcome   = 65
)

const (
	headerSize = 64
	// frameUnit is what a responder may read at any frame boundary, replyUnit
	// what a requester may; see doc.go. Reads come in chunks of a few KiB, whose
	// headers weigh; of replies only those to atomics, 8 bytes, are small.
	frameUnit = 256
	replyUnit = headerSize + 16
	inlineMax = frameUnit - headerSize
)

// header is a frame header with its extension:
//
//	 0            16     24     32     40      48      52       56    60       64
//	+-------------+------+------+------+-------+-------+--------+-----+--------+
//	| wire.Header | seq  | ack  | key  | addr  | total | offset | imm | status |
//	+-------------+------+------+------+-------+-------+--------+-----+--------+
//
// The last word has two uses: of a nak it is the status, of a frame with payload the
// CRC-32C of that payload where the link has sums (hello.go), else 0.
//
// A request's bytes are [offset, offset+length) of a message of total bytes
// whose destination (or source, of a read) begins at addr of region key.
// fetch-add and compare-swap carry their operands as payload.
type header struct {
	kind   uint8
	length uint32 // payload bytes in this frame
	seq    uint64 // from 1, per endpoint and direction
	ack    uint64 // all requests from the other side up to this one are done
	key    uint64
	addr   uint64
	total  uint32
	offset uint32
	imm    uint32
	status uint32 // of a nak
	sum    uint32 // of the payload
}

// unit is that of the frame's direction.
func (h *header) unit() int {
	switch h.kind {
	case kindAck, kindNak, kindReadData, kindAtomicOld:
		return replyUnit
	}
	return frameUnit
}

// large says whether the payload lands apart from the header.
func (h *header) large() bool { return int(h.length) > h.unit()-headerSize }

// size is how many bytes the header takes on the wire.
func (h *header) size() int {
	if h.large() {
		return h.unit()
	}
	return headerSize
}

// encode writes the header to b, which has frameUnit bytes, and returns the
// part of b to send.
func (h *header) encode(b []byte) []byte {
	le := binary.LittleEndian
	le.PutUint64(b[16:], h.seq)
	le.PutUint64(b[24:], h.ack)
	le.PutUint64(b[32:], h.key)
	le.PutUint64(b[40:], h.addr)
	le.PutUint32(b[48:], h.total)
	le.PutUint32(b[52:], h.offset)
	le.PutUint32(b[56:], h.imm)
	le.PutUint32(b[60:], h.status|h.sum) // one of them is 0
	wire.Header{Kind: h.kind, Length: h.length}.Encode(b[:headerSize])
	return b[:h.size()]
}

// decodeHeader checks everything about a header that does not depend on the
// connection's state.
func decodeHeader(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{}, fmt.Errorf("%w: %d bytes, a tcp frame header has %d", wire.ErrFrame, len(b), headerSize)
	}
	w, err := wire.Decode(b[:headerSize], maxMessage)
	if err != nil {
		return header{}, err
	}
	le := binary.LittleEndian
	h := header{
		kind: w.Kind, length: w.Length,
		seq: le.Uint64(b[16:]), ack: le.Uint64(b[24:]), key: le.Uint64(b[32:]), addr: le.Uint64(b[40:]),
		total: le.Uint32(b[48:]), offset: le.Uint32(b[52:]), imm: le.Uint32(b[56:]),
	}
	if last := le.Uint32(b[60:]); h.kind == kindNak {
		h.status = last
	} else {
		h.sum = last
	}
	return h, h.check()
}

func (h *header) check() error {
	bad := func(what string) error {
		return fmt.Errorf("%w: kind %d, length %d, offset %d, total %d: %s", wire.ErrFrame, h.kind, h.length, h.offset, h.total, what)
	}
	if h.total > maxMessage {
		return bad("message above the limit")
	}
	carried := uint64(h.length)
	switch h.kind {
	case uint8(rdma.OpWrite), uint8(rdma.OpWriteImm), kindReadData:
	case uint8(rdma.OpSend):
		if h.offset != 0 || h.length != h.total {
			return bad("a send is one frame")
		}
	case uint8(rdma.OpRead):
		if h.length != 0 {
			return bad("a read request has no payload")
		}
		carried = uint64(h.imm) // length of the part asked for
	case uint8(rdma.OpFetchAdd), kindAtomicOld:
		if h.length != 8 {
			return bad("8 bytes of payload expected")
		}
		carried = 0
	case uint8(rdma.OpCompareSwap):
		if h.length != 16 {
			return bad("16 bytes of payload expected")
		}
		carried = 0
	case kindAck, kindNak:
		if h.length != 0 {
			return bad("no payload expected")
		}
		carried = 0
	default:
		return bad("unknown kind")
	}
	if uint64(h.offset)+carried > uint64(h.total) && h.kind != kindAtomicOld && h.kind != kindAck && h.kind != kindNak {
		return bad("part outside its message")
	}
	return nil
}
