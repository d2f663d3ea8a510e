package heter

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrProtocol marks what no peer of this version sends.
var ErrProtocol = errors.New("heter: the peer's message makes no sense")

// version of heads and hellos.
const version = 2

// Head begins a leaf's message.
//
//	 0  version u16 | kind u16 | examples u32
//	 8  step u64
//	16  first row u64
//	24  epoch u32 | rows u32
//	32  floats u32 | 0 u32 | 0 u64 | 0 u64 | 0 u64
type Head struct {
	Kind     uint16
	Examples uint32
	Step     uint64
	FirstRow uint64
	Epoch    uint32
	Rows     uint32 // of the global batch
	Floats   uint32 // that follow
}

const headBytes = 64

func (h *Head) encode(b []byte) {
	le := binary.LittleEndian
	le.PutUint16(b, version)
	le.PutUint16(b[2:], h.Kind)
	le.PutUint32(b[4:], h.Examples)
	le.PutUint64(b[8:], h.Step)
	le.PutUint64(b[16:], h.FirstRow)
	le.PutUint32(b[24:], h.Epoch)
	le.PutUint32(b[28:], h.Rows)
	le.PutUint32(b[32:], h.Floats)
	clear(b[36:headBytes])
}

// decode reads a head that at most so many floats may follow.
func (h *Head) decode(b []byte, floats int) error {
	if len(b) < headBytes {
		return fmt.Errorf("%w: %d bytes, a head has %d", ErrProtocol, len(b), headBytes)
	}
	le := binary.LittleEndian
	if v := le.Uint16(b); v != version {
		return fmt.Errorf("%w: it speaks version %d, this program %d: run the same psrt everywhere", ErrProtocol, v, version)
	}
	*h = Head{Kind: le.Uint16(b[2:]), Examples: le.Uint32(b[4:]), Step: le.Uint64(b[8:]), FirstRow: le.Uint64(b[16:]),
		Epoch: le.Uint32(b[24:]), Rows: le.Uint32(b[28:]), Floats: le.Uint32(b[32:])}
	if int64(h.Floats) > int64(floats) {
		return fmt.Errorf("%w: %d floats, the most is %d", ErrProtocol, h.Floats, floats)
	}
	return nil
}
