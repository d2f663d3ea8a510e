package codec

import (
	"io"
	"math/rand/v2"
	"net"
	"time"

	"psrt/rdma/mem"
	"psrt/rdma/wire"
)

const (
	headerSlots = 64 // as many as the frames of a batch
	frameBytes  = 4 << 10
)

// headers are frame headers with an extension that their checksum covers.
type headers struct {
	list []wire.Header
	ext  [][]byte
}

func newHeaders(r *rand.Rand, name string, size int) kind {
	f := &headers{}
	for range headerSlots {
		f.list = append(f.list, wire.Header{Kind: uint8(r.Uint32()), Flags: uint16(r.Uint32()), Length: r.Uint32()})
		f.ext = append(f.ext, random(r, size-wire.HeaderSize))
	}
	return kind{name: name, slots: headerSlots, stride: 64, size: size, decodes: "decode", f: f}
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (f *headers) encode(r *ring, n int) error {
	for i, at := 0, 0; i < n; i++ {
		b := r.slot(at)
		copy(b[wire.HeaderSize:], f.ext[at])
		f.list[at].Encode(b)
		if at++; at == r.slots {
			at = 0
		}
	}
	return nil
}

func (f *headers) decode(r *ring, n int) (sum uint64, err error) {
	for i, at := 0, 0; i < n; i++ {
		h, err := wire.Decode(r.slot(at), 1<<32-1)
		if err != nil {
			return 0, err
		}
		sum += addUp(h)
		if at++; at == r.slots {
			at = 0
		}
	}
	return sum, nil
}

func addUp(h wire.Header) uint64 { return uint64(h.Kind) + uint64(h.Flags)<<8 + uint64(h.Length)<<24 }

func (f *headers) want(slot int) uint64 { return addUp(f.list[slot]) }

func (f *headers) equal(r *ring, slot int) bool {
	h, err := wire.Decode(r.slot(slot), 1<<32-1)
	return err == nil && h == f.list[slot] && string(r.slot(slot)[wire.HeaderSize:]) == string(f.ext[slot])
}

// frames are whole control frames, through a connection that is memory.
type frames struct {
	payload [][]byte
	conn    memory
}

func newFrames(r *rand.Rand) kind {
	f := &frames{}
	for range 8 {
		f.payload = append(f.payload, random(r, frameBytes))
	}
	return kind{name: "control frame", slots: 8, stride: 2 * frameBytes, size: wire.HeaderSize + frameBytes, decodes: "decode, read", f: f}
}

func (f *frames) encode(r *ring, n int) error {
	for i, at := 0, 0; i < n; i++ {
		if err := wire.WriteFrame(f.conn.of(r.slot(at)), uint8(at), f.payload[at], frameBytes, time.Time{}); err != nil {
			return err
		}
		if at++; at == r.slots {
			at = 0
		}
	}
	return nil
}

func (f *frames) decode(r *ring, n int) (sum uint64, err error) {
	for i, at := 0, 0; i < n; i++ {
		h, b, err := wire.ReadFrame(f.conn.of(r.slot(at)), frameBytes, time.Time{})
		if err != nil {
			return 0, err
		}
		sum += addUp(h) + words(mem.Uint64s(b))
		if at++; at == r.slots {
			at = 0
		}
	}
	return sum, nil
}

func (f *frames) want(slot int) uint64 {
	return addUp(wire.Header{Kind: uint8(slot), Length: frameBytes}) + words(mem.Uint64s(f.payload[slot]))
}

func (f *frames) equal(r *ring, slot int) bool {
	h, b, err := wire.ReadFrame(f.conn.of(r.slot(slot)), frameBytes, time.Time{})
	return err == nil && h == (wire.Header{Kind: uint8(slot), Length: frameBytes}) && string(b) == string(f.payload[slot])
}

// memory is a connection whose bytes are a slot.
type memory struct {
	net.Conn
	b  []byte
	at int
}

func (m *memory) of(slot []byte) *memory {
	m.b, m.at = slot, 0
	return m
}

func (m *memory) Write(b []byte) (int, error) {
	n := copy(m.b[m.at:], b)
	m.at += n
	if n < len(b) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func (m *memory) Read(b []byte) (int, error) {
	if m.at == len(m.b) {
		return 0, io.EOF
	}
	n := copy(b, m.b[m.at:])
	m.at += n
	return n, nil
}

func (m *memory) SetReadDeadline(time.Time) error  { return nil }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }
