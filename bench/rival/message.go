package rival

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Kinds of a message.
const (
	kindPull = 1 + iota
	kindPush
	kindValues
	kindDone
)

// HeadBytes is the header of a message: 16 bytes (kind, rows, floats a row, zero, each a
// little-endian uint32), then rows x 8 bytes of keys (pull, push), then rows x
// floats x 4 bytes of gradients (push) or values (values).
const HeadBytes = 16

const (
	maxRows   = 1 << 22
	maxFloats = 1 << 12
)

var errMessage = errors.New("rival: malformed message")

type header struct{ kind, rows, floats uint32 }

func (h header) put(b []byte) {
	binary.LittleEndian.PutUint32(b, h.kind)
	binary.LittleEndian.PutUint32(b[4:], h.rows)
	binary.LittleEndian.PutUint32(b[8:], h.floats)
	binary.LittleEndian.PutUint32(b[12:], 0)
}

// body is how many bytes follow.
func (h header) body() int {
	keys, values := int(h.rows)*8, int(h.rows)*int(h.floats)*4
	switch h.kind {
	case kindPull:
		return keys
	case kindPush:
		return keys + values
	case kindValues:
		return values
	}
	return 0
}

func parse(b []byte) (header, error) {
	h := header{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])}
	if h.kind < kindPull || h.kind > kindDone || h.rows > maxRows || h.floats < 1 || h.floats > maxFloats || binary.LittleEndian.Uint32(b[12:]) != 0 {
		return h, fmt.Errorf("%w: kind %d, %d rows of %d floats", errMessage, h.kind, h.rows, h.floats)
	}
	return h, nil
}

// receive reads one message into buf, which grows as needed.
func receive(from io.Reader, buf []byte) (header, []byte, error) {
	if cap(buf) < HeadBytes {
		buf = make([]byte, 1<<16)
	}
	buf = buf[:HeadBytes]
	if _, err := io.ReadFull(from, buf); err != nil {
		return header{}, buf, err
	}
	h, err := parse(buf)
	if err != nil {
		return h, buf, err
	}
	n := h.body()
	if cap(buf) < n {
		buf = make([]byte, n+n/2)
	}
	buf = buf[:n]
	_, err = io.ReadFull(from, buf)
	return h, buf, err
}
