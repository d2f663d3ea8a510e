package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/valyala/bytebufferpool"
)

// frames are buffers for control frames: the lengths that are common are kept, so that a
// rare long one does not stay.
var frames bytebufferpool.Pool

// Frame is a control frame in a buffer of the pool, until it is freed.
type Frame struct{ buf *bytebufferpool.ByteBuffer }

// NewFrame copies payload, of at most max bytes, behind a head.
func NewFrame(kind uint8, payload []byte, max uint32) (Frame, error) {
	return newFrame(kind, max, func(b *bytebufferpool.ByteBuffer) error {
		b.B = append(b.B, payload...)
		return nil
	})
}

// NewJSON has msg as JSON behind a head.
func NewJSON(kind uint8, msg any, max uint32) (Frame, error) {
	return newFrame(kind, max, func(b *bytebufferpool.ByteBuffer) error {
		err := json.NewEncoder(b).Encode(msg)
		if err == nil {
			b.B = b.B[:len(b.B)-1] // the encoder ends lines
		}
		return err
	})
}

func newFrame(kind uint8, max uint32, fill func(*bytebufferpool.ByteBuffer) error) (Frame, error) {
	f := Frame{frames.Get()}
	var head [HeaderSize]byte
	f.buf.B = append(f.buf.B, head[:]...)
	if err := fill(f.buf); err != nil {
		f.Free()
		return Frame{}, err
	}
	n := len(f.buf.B) - HeaderSize
	if uint64(n) > uint64(max) {
		f.Free()
		return Frame{}, fmt.Errorf("%w: payload of %d bytes, the limit is %d", ErrFrame, n, max)
	}
	Header{Kind: kind, Length: uint32(n)}.Encode(f.buf.B[:HeaderSize])
	return f, nil
}

// Free gives the buffer back; the frame is dead then.
func (f Frame) Free() { frames.Put(f.buf) }

// Write sends the frame before the deadline, in one call.
func (f Frame) Write(c net.Conn, deadline time.Time) error {
	if err := c.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if _, err := c.Write(f.buf.B); err != nil {
		return err
	}
	// The frame is out; if the connection has ended meanwhile, its reader says so.
	_ = c.SetWriteDeadline(time.Time{})
	return nil
}

// WriteFrame sends one control frame before the deadline. The payload must not
// be longer than max: what the other side would refuse is refused here, where
// the caller can still say what it was.
func WriteFrame(c net.Conn, kind uint8, payload []byte, max uint32, deadline time.Time) error {
	f, err := NewFrame(kind, payload, max)
	if err != nil {
		return err
	}
	defer f.Free()
	return f.Write(c, deadline)
}

// ReadFrame receives one control frame before the deadline (the zero time:
// whenever it comes). A connection that ends between two frames gives io.EOF,
// one that ends inside a frame io.ErrUnexpectedEOF.
func ReadFrame(c net.Conn, max uint32, deadline time.Time) (Header, []byte, error) {
	h, err := readHeader(c, max, deadline)
	if err != nil {
		return Header{}, nil, err
	}
	payload := make([]byte, h.Length)
	if err := readPayload(c, payload); err != nil {
		return Header{}, nil, err
	}
	return h, payload, nil
}

// ReadShort is ReadFrame for who is done with the payload when use returns: it lies in a
// buffer of the pool.
func ReadShort(c net.Conn, max uint32, deadline time.Time, use func(h Header, payload []byte) error) error {
	h, err := readHeader(c, max, deadline)
	if err != nil {
		return err
	}
	b := frames.Get() // nobody holds one while it waits for a frame to begin
	defer frames.Put(b)
	if cap(b.B) < int(h.Length) {
		b.B = make([]byte, h.Length)
	}
	b.B = b.B[:h.Length]
	if err := readPayload(c, b.B); err != nil {
		return err
	}
	return use(h, b.B)
}

func readHeader(c net.Conn, max uint32, deadline time.Time) (Header, error) {
	if err := c.SetReadDeadline(deadline); err != nil {
		return Header{}, err
	}
	var b [HeaderSize]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return Header{}, err
	}
	return Decode(b[:], max)
}

func readPayload(c net.Conn, b []byte) error {
	_, err := io.ReadFull(c, b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
