package wire

import (
	"fmt"
	"io"
	"net"
	"time"
)

// WriteFrame sends one control frame before the deadline. The payload must not
// be longer than max: what the other side would refuse is refused here, where
// the caller can still say what it was.
func WriteFrame(c net.Conn, kind uint8, payload []byte, max uint32, deadline time.Time) error {
	if uint64(len(payload)) > uint64(max) {
		return fmt.Errorf("%w: payload of %d bytes, the limit is %d", ErrFrame, len(payload), max)
	}
	if err := c.SetWriteDeadline(deadline); err != nil {
		return err
	}
	b := make([]byte, HeaderSize, HeaderSize+len(payload))
	Header{Kind: kind, Length: uint32(len(payload))}.Encode(b)
	if _, err := c.Write(append(b, payload...)); err != nil {
		return err
	}
	// The frame is out; if the connection has ended meanwhile, its reader says so.
	_ = c.SetWriteDeadline(time.Time{})
	return nil
}

// ReadFrame receives one control frame before the deadline (the zero time:
// whenever it comes). A connection that ends between two frames gives io.EOF,
// one that ends inside a frame io.ErrUnexpectedEOF.
func ReadFrame(c net.Conn, max uint32, deadline time.Time) (Header, []byte, error) {
	if err := c.SetReadDeadline(deadline); err != nil {
		return Header{}, nil, err
	}
	var b [HeaderSize]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return Header{}, nil, err
	}
	h, err := Decode(b[:], max)
	if err != nil {
		return Header{}, nil, err
	}
	payload := make([]byte, h.Length)
	if _, err := io.ReadFull(c, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Header{}, nil, err
	}
	return h, payload, nil
}
