package relay

import (
	"encoding/binary"
	"fmt"

	"psrt/sched/chain"
)

// A message on the link. Group, From and To are the link's.
//
//	 0  kind u8 | flags u8 (1: merge, 2: an item follows) | op's kind u8 | 0 u8 | worker u32
//	 8  epoch u64
//	16  seq u64
//	24  off u64
//	32  committed u64
//	40  header: seq u64 | client u64 | push u64 | size u64
//	72  bytes u64         of Bytes, which are the rest; with an item 0
//
// An item:
//
//	80  kind u8 | flags u8 (1: it has an op, 2: the op's merge) | op's kind u8 | 0 u8 | worker u32
//	88  seq u64
//	96  clients u64
//	104 bytes u64 | note u64 | body u64
//	128 op: seq u64 | client u64 | push u64 | size u64
//	160 clients, 24 bytes each: worker u32 | gone u32 | client u64 | last u64
//	    bytes, note, body
const (
	messageBytes = 80
	itemBytes    = 80
	clientBytes  = 24
)

const (
	flagMerge = 1 << iota
	flagItem
)

const (
	flagOp = 1 << iota
	flagOpMerge
)

// payload is a message as it goes out: meta, and then what the message has in
// memory of its own.
type payload struct {
	meta  []byte // reused
	parts [3][]byte
	total int
}

// sizeOf is how long a message is on the link.
func sizeOf(m *chain.Message) int {
	n := messageBytes + len(m.Bytes)
	if it := m.Item; it != nil {
		n += itemBytes + clientBytes*len(it.Clients) + len(it.Bytes) + len(it.Note)
		if it.Op != nil {
			n += len(it.Op.Body)
		}
	}
	return n
}

// encode makes p of m, whose slices it refers to.
func (p *payload) encode(m *chain.Message) {
	b := p.meta[:0]
	var flags uint8
	if m.Header.Merge {
		flags |= flagMerge
	}
	if m.Item != nil {
		flags |= flagItem
	}
	b = append(b, uint8(m.Kind), flags, uint8(m.Header.Kind), 0)
	b = put32(b, m.Header.Worker)
	b = put64(b, m.Epoch, m.Seq, uint64(m.Off), m.Committed)
	b = put64(b, m.Header.Seq, m.Header.Client, m.Header.Push, uint64(m.Header.Size), uint64(len(m.Bytes)))
	p.parts = [3][]byte{m.Bytes}
	if m.Item != nil {
		b = p.encodeItem(b, m.Item)
	}
	p.meta, p.total = b, len(b)
	for _, part := range p.parts {
		p.total += len(part)
	}
}

func (p *payload) encodeItem(b []byte, it *chain.Item) []byte {
	var flags uint8
	var op chain.Op
	if it.Op != nil {
		flags |= flagOp
		op = *it.Op
		if op.Merge {
			flags |= flagOpMerge
		}
	}
	b = append(b, uint8(it.Kind), flags, uint8(op.Kind), 0)
	b = put32(b, op.Worker)
	b = put64(b, it.Seq, uint64(len(it.Clients)), uint64(len(it.Bytes)), uint64(len(it.Note)), uint64(len(op.Body)))
	b = put64(b, op.Seq, op.Client, op.Push, uint64(op.Size))
	for _, c := range it.Clients {
		gone := uint32(0)
		if c.Gone {
			gone = 1
		}
		b = put32(b, c.Worker, gone)
		b = put64(b, c.Client, c.Last)
	}
	p.parts = [3][]byte{it.Bytes, it.Note, op.Body}
	return b
}

func put32(b []byte, vs ...uint32) []byte {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func put64(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// copyAt fills dst with the payload's bytes from off on.
func (p *payload) copyAt(dst []byte, off int) {
	for i := -1; i < len(p.parts) && len(dst) > 0; i++ {
		part := p.meta
		if i >= 0 {
			part = p.parts[i]
		}
		if off >= len(part) {
			off -= len(part)
			continue
		}
		n := copy(dst, part[off:])
		dst, off = dst[n:], 0
	}
}

// decoder takes messages off the link. What it returns is its own and is used
// again.
type decoder struct {
	max    uint64 // bytes of one message
	msg    chain.Message
	rows   chain.Item
	copied uint64 // bytes of the last message, because they were lent
}

// forget lets go of what the last message referred to.
func (d *decoder) forget() { d.msg, d.rows = chain.Message{}, chain.Item{} }

// decode reads the message that b is. Where b is lent, what may be kept is copied.
func (d *decoder) decode(b []byte, lent bool) (*chain.Message, error) {
	d.copied = 0
	if len(b) < messageBytes {
		return nil, fmt.Errorf("%w: a message of %d bytes, its beginning has %d", ErrProtocol, len(b), messageBytes)
	}
	var h [messageBytes]byte
	rest := b[copy(h[:], b):]
	le := binary.LittleEndian
	kind, flags, size, off := chain.MessageKind(h[0]), h[1], le.Uint64(h[64:]), le.Uint64(h[24:])
	n := le.Uint64(h[72:])
	switch {
	case kind < chain.Sync || kind > chain.Moved || flags > flagMerge|flagItem || h[3] != 0:
		return nil, fmt.Errorf("%w: a message of kind %d with flags %#x", ErrProtocol, h[0], flags)
	case (kind == chain.Feed) != (flags&flagItem != 0):
		return nil, fmt.Errorf("%w: an item in a message of kind %s, or none in a feed", ErrProtocol, kind)
	case off > d.max || size > d.max:
		return nil, fmt.Errorf("%w: %d bytes of an op of %d, at most %d are carried", ErrProtocol, off, size, d.max)
	case flags&flagItem == 0 && n != uint64(len(rest)) || flags&flagItem != 0 && n != 0:
		return nil, fmt.Errorf("%w: %d bytes in a message that says %d", ErrProtocol, len(rest), n)
	}
	m := &d.msg
	*m = chain.Message{Kind: kind, Epoch: le.Uint64(h[8:]), Seq: le.Uint64(h[16:]), Off: int(off), Committed: le.Uint64(h[32:]),
		Header: chain.Header{Kind: chain.Kind(h[2]), Merge: flags&flagMerge != 0, Worker: le.Uint32(h[4:]),
			Seq: le.Uint64(h[40:]), Client: le.Uint64(h[48:]), Push: le.Uint64(h[56:]), Size: int(size)}}
	switch {
	case kind == chain.Data:
		if err := opKind(m.Header.Kind); err != nil {
			return nil, err
		}
		if n > size || off > size-n {
			return nil, fmt.Errorf("%w: bytes %d to %d of an op of %d", ErrProtocol, off, off+n, size)
		}
	case m.Header != (chain.Header{}) || n != 0:
		return nil, fmt.Errorf("%w: a part of an op in a message of kind %s", ErrProtocol, kind)
	}
	if flags&flagItem != 0 {
		return m, d.item(rest, lent)
	}
	if n > 0 {
		m.Bytes = rest[:n:n]
	}
	return m, nil
}

func opKind(k chain.Kind) error {
	if k < chain.Push || k > chain.Void {
		return fmt.Errorf("%w: an op of kind %d", ErrProtocol, uint8(k))
	}
	return nil
}
