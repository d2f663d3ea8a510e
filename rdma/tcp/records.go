package tcp

import (
	"encoding/binary"
	"net"
	"syscall"
)

// records stands between TLS and its connection. TLS can do nothing with a part of a
// record, and reads what it lacks of one in as many pieces as come: over a slow link each
// packet would wake the process. Here the kernel wakes it when the record is whole, or
// when what the engine waits for is.
//
// It looks at the lengths of records alone, and only to wait less often: what they say
// is TLS's to judge.
type records struct {
	net.Conn
	socket syscall.RawConn // nil: there is none, and nothing to tell the kernel

	buf    []byte // buf[lo:hi] is read and not given to TLS
	lo, hi int

	header [recordHeader]byte
	have   int // bytes of the header that has begun
	size   int // of the record that has begun, without its header
	left   int // bytes of it that have not come
	low    int // what the kernel was told last

	sealed *sealed // nil: reads and writes wait, as the handshake wants it
}

const (
	recordHeader = 5 // type u8 | version u16 | length u16, big endian: RFC 8446, 5.1
	recordsBytes = 32 << 10
	// worthWaiting is how much must be missing for two system calls to be cheaper than
	// the wake-ups that they spare.
	worthWaiting = 4 << 10
	// longestWait is half of what the kernel lets a peer have on its way at first: the
	// peer must not have to wait until this side reads.
	longestWait = 32 << 10
)

func newRecords(c net.Conn) *records {
	r := &records{Conn: c, buf: make([]byte, recordsBytes), low: 1}
	if s := socketOf(c); s != nil {
		r.socket, _ = s.SyscallConn() // nil where it is closed: reading says so
	}
	return r
}

func (r *records) Read(b []byte) (int, error) {
	if r.lo == r.hi && len(b) > 0 {
		n, err := r.fill()
		if n <= 0 {
			return n, err
		}
		r.lo, r.hi = 0, n
		r.pass(r.buf[:n])
	}
	n := copy(b, r.buf[r.lo:r.hi])
	r.lo += n
	return n, nil
}

func (r *records) fill() (int, error) {
	if r.sealed != nil {
		return r.sealed.fill(r.buf)
	}
	r.await(0)
	return r.Conn.Read(r.buf)
}

func (r *records) Write(b []byte) (int, error) {
	if r.sealed != nil {
		return r.sealed.keep(b)
	}
	return r.Conn.Write(b)
}

// await tells the kernel how much to wait for: the rest of a record that has begun, or
// of the bytes that are sure to follow what TLS has given. What is there it gives at once
// in any case, and the end of the connection, too.
func (r *records) await(sure int) {
	low := r.left
	if r.left > 0 {
		sure -= r.size - r.left
	}
	if low = max(low, min(sure, longestWait)); low < worthWaiting || low > longestWait {
		low = 1
	}
	if low == r.low || r.socket == nil {
		return
	}
	r.low = low
	_ = r.socket.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, low) // only speed
	})
}

// pass notes what has come of which record.
func (r *records) pass(b []byte) {
	for len(b) > 0 {
		if r.left > 0 {
			n := min(r.left, len(b))
			r.left -= n
			b = b[n:]
			continue
		}
		n := copy(r.header[r.have:], b)
		r.have += n
		b = b[n:]
		if r.have == recordHeader {
			r.have, r.left = 0, int(binary.BigEndian.Uint16(r.header[3:]))
			r.size = r.left
		}
	}
}
