package server

import (
	"encoding/binary"
	"errors"
	"fmt"

	"psrt/rdma/mem"
	"psrt/sched/chain"
	"psrt/sched/compress"
	"psrt/sched/psmsg"
)

// A push's body:
//
//	 0  kind u8 | flags u8 (FlagTick, FlagPacked) | 0 u16 | table u32
//	 8  clock u64
//	16  rows u32 | 0 u32
//	24  keys, 8 bytes each; gradients. Of dense values the blocks of this lane, one
//	    behind the other. With FlagPacked what the worker has sent instead of
//	    gradients: every replica unpacks it
const bodyHeader = 24

// bodyFlags are those that a body keeps.
const bodyFlags = psmsg.FlagTick | psmsg.FlagPacked

var errBody = errors.New("server: the body of an op is not what its kind says")

// bodySize is how long a push's body is.
func (c *chained) bodySize(r *request) int {
	switch {
	case r.Kind == psmsg.KindPush:
		return bodyHeader + int(r.Rows)*8 + len(r.grads)*4 + len(r.pack.bytes)
	case r.Flags&psmsg.FlagPacked != 0:
		return bodyHeader + len(r.pack.bytes)
	case r.Rows == 0:
		return bodyHeader
	}
	return bodyHeader + c.l.dense.floats*4
}

// encode copies a push out of its worker's memory, the one copy that is made here.
func (c *chained) encode(r *request, size int) []byte {
	b := c.beginBody(r, size)
	switch {
	case r.Kind == psmsg.KindPush:
		return append(append(append(b, mem.Bytes(r.keys)...), mem.Bytes(r.grads)...), r.pack.bytes...)
	case r.Flags&psmsg.FlagPacked != 0:
		return append(b, r.pack.bytes...)
	case r.Rows > 0:
		for _, block := range c.l.dense.blocks {
			b = append(b, mem.Bytes(r.grads[block.Offset:block.Offset+block.Len])...)
		}
	}
	return b
}

// opens says whether a packed push's body can be decoded; of others the lengths were
// checked when they came. It reads the copy: a worker may change what it lends.
func (c *chained) opens(r *request, body []byte) error {
	if r.Flags&psmsg.FlagPacked == 0 {
		return nil
	}
	b := body[bodyHeader:]
	if r.Kind == psmsg.KindPush {
		spec := &c.l.tables[r.Table].spec
		_, err := compress.Open(b[int(r.Rows)*8:], int(r.Rows), spec.PushFloats()-spec.Dim, spec.Dim)
		return err
	}
	came := r.pack.bytes
	r.pack.bytes = b
	err := c.l.unpackDense(r)
	r.pack.bytes, r.grads = came, nil
	return err
}

// asOld is a push's body as every member of the chain reads it: with a member of
// before psmsg.PackedSince what is packed is unpacked. That is for what was ordered
// before it came, and it is given as it joins; workers have been told since.
func (c *chained) asOld(h *chain.Header, body []byte) []byte {
	if len(body) < bodyHeader || psmsg.Flags(body[1])&psmsg.FlagPacked == 0 || c.speaks.Load() >= psmsg.PackedSince {
		return body
	}
	r, err := c.decode(h, body)
	if err == nil && r.times != nil { // floats would be applied otherwise: it refuses this, and its copy begins again
		return body
	}
	if err != nil { // it has been done here
		c.fail(fmt.Errorf("server: group %d: op %d cannot be unpacked for an older server: %w", c.cfg.Group, h.Seq, err))
		return body
	}
	old := append([]byte(nil), body[:bodyHeader]...)
	old[1] &^= byte(psmsg.FlagPacked)
	binary.LittleEndian.PutUint32(old[16:], r.Rows)
	old = append(old, mem.Bytes(r.keys)...)
	return append(old, mem.Bytes(r.grads)...)
}

// decode makes a request of a body, which it goes on to refer to. It belongs to no
// session.
func (c *chained) decode(h *chain.Header, b []byte) (*request, error) {
	if len(b) < bodyHeader || int(h.Worker) >= c.l.cfg.Workers {
		return nil, fmt.Errorf("%w: %d bytes of worker %d", errBody, len(b), h.Worker)
	}
	le := binary.LittleEndian
	r := &request{s: &session{worker: int(h.Worker), client: h.Client, broken: true}, chained: true, op: h.Seq, body: b}
	r.Seq = h.Push
	r.Kind, r.Flags = psmsg.Kind(b[0]), psmsg.Flags(b[1])&bodyFlags
	r.Table, r.Clock, r.Rows = le.Uint32(b[4:]), le.Uint64(b[8:]), le.Uint32(b[16:])
	if r.Flags&psmsg.FlagPacked != 0 && c.own() < psmsg.PackedSince {
		return nil, fmt.Errorf("%w: it is compressed, which there is since protocol %d", errBody, psmsg.PackedSince)
	}
	b = b[bodyHeader:]
	switch r.Kind {
	case psmsg.KindPush:
		t := c.l.tables[r.Table]
		if t == nil {
			return nil, fmt.Errorf("%w: no table %d", errBody, r.Table)
		}
		keys := uint64(r.Rows) * 8
		if r.Flags&psmsg.FlagPacked != 0 && keys <= uint64(len(b)) {
			r.keys, r.pack.bytes = mem.Uint64s(b[:keys]), b[keys:]
			if err := c.l.unpackRows(r, &t.spec); err != nil || r.times == nil || c.own() >= psmsg.TimesSince {
				return r, err
			}
			return nil, fmt.Errorf("%w: it says of how many steps its rows are the sum, which there is since protocol %d", errBody, psmsg.TimesSince)
		}
		if uint64(len(b)) != keys+uint64(r.Rows)*uint64(t.spec.PushFloats())*4 {
			return nil, fmt.Errorf("%w: %d rows of table %d in %d bytes", errBody, r.Rows, r.Table, len(b))
		}
		r.keys, r.grads = mem.Uint64s(b[:keys]), mem.Float32s(b[keys:])
	case psmsg.KindPushDense:
		if r.Flags&psmsg.FlagPacked != 0 {
			r.pack.bytes = b
			return r, c.l.unpackDense(r)
		}
		if r.Rows > 0 && len(b) != c.l.dense.floats*4 || r.Rows == 0 && len(b) != 0 {
			return nil, fmt.Errorf("%w: %d bytes for %d dense floats", errBody, len(b), c.l.dense.floats)
		}
		r.grads = mem.Float32s(b)
	default:
		return nil, fmt.Errorf("%w: a push of kind %d", errBody, uint8(r.Kind))
	}
	return r, nil
}
