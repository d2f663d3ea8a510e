package relay

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"psrt/sched/chain"
)

// item reads a message's item. Items of rows are lent like the message; the others
// are made anew, of copies where b is lent.
func (d *decoder) item(b []byte, lent bool) error {
	if len(b) < itemBytes {
		return fmt.Errorf("%w: an item of %d bytes, its beginning has %d", ErrProtocol, len(b), itemBytes)
	}
	var h [itemBytes]byte
	b = b[copy(h[:], b):]
	le := binary.LittleEndian
	kind, flags := chain.ItemKind(h[0]), h[1]
	clients, n, note, body, size := le.Uint64(h[16:]), le.Uint64(h[24:]), le.Uint64(h[32:]), le.Uint64(h[40:]), le.Uint64(h[72:])
	left := uint64(len(b))
	switch {
	case kind < chain.First || kind > chain.Last || flags > flagOp|flagOpMerge || flags == flagOpMerge || h[3] != 0:
		return fmt.Errorf("%w: an item of kind %d with flags %#x", ErrProtocol, h[0], flags)
	case clients > left/clientBytes || n > left || note > left || body > left || clients*clientBytes+n+note+body != left:
		return fmt.Errorf("%w: %d clients, %d bytes, a note of %d and a body of %d in an item of %d", ErrProtocol, clients, n, note, body, left)
	case (kind == chain.Later) != (flags&flagOp != 0):
		return fmt.Errorf("%w: an op in an item of kind %d, or none in a later one", ErrProtocol, h[0])
	case size != body:
		return fmt.Errorf("%w: %d bytes of an op of %d: what is committed is whole", ErrProtocol, body, size)
	}
	it := &d.rows
	if kind != chain.Rows {
		it = &chain.Item{}
	}
	*it = chain.Item{Kind: kind, Seq: le.Uint64(h[8:])}
	op := chain.Header{Kind: chain.Kind(h[2]), Merge: flags&flagOpMerge != 0, Worker: le.Uint32(h[4:]),
		Seq: le.Uint64(h[48:]), Client: le.Uint64(h[56:]), Push: le.Uint64(h[64:]), Size: int(size)}
	switch {
	case flags&flagOp == 0 && op != (chain.Header{}):
		return fmt.Errorf("%w: a part of an op in an item of kind %d", ErrProtocol, h[0])
	case flags&flagOp != 0:
		if err := opKind(op.Kind); err != nil {
			return err
		}
	}
	for ; clients > 0; clients-- {
		gone := le.Uint32(b[4:])
		if gone > 1 {
			return fmt.Errorf("%w: a client that is %d gone", ErrProtocol, gone)
		}
		it.Clients = append(it.Clients, chain.Client{Worker: le.Uint32(b), Gone: gone == 1, Client: le.Uint64(b[8:]), Last: le.Uint64(b[16:])})
		b = b[clientBytes:]
	}
	take := func(n uint64) []byte {
		part := b[:n:n]
		b = b[n:]
		switch {
		case n == 0:
			return nil
		case lent && kind != chain.Rows:
			d.copied += n
			return bytes.Clone(part)
		}
		return part
	}
	it.Bytes, it.Note = take(n), take(note)
	if flags&flagOp != 0 {
		it.Op = &chain.Op{Header: op, Body: take(body)}
	}
	d.msg.Item = it
	return nil
}
