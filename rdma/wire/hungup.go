package wire

import (
	"errors"
	"io"
	"syscall"
)

// HungUp says whether a connection ended because its other end was closed, by its process
// or with it. One that is cut off, or whose peer is stopped, ends otherwise.
func HungUp(err error) bool {
	for _, closed := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, closed) {
			return true
		}
	}
	return false
}
