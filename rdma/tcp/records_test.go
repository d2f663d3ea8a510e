package tcp

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
)

// TestRecords: whatever comes in whatever pieces is given on unchanged, and the rest of a
// record that is under way is what is waited for.
func TestRecords(t *testing.T) {
	r := seedtest.Rand(t)
	for range 200 {
		var sent []byte
		var ends []int // of records
		for range 1 + r.IntN(8) {
			n := r.IntN(64)
			if r.IntN(3) == 0 {
				n = r.IntN(1 << 16)
			}
			sent = binary.BigEndian.AppendUint16(append(sent, 23, 3, 3), uint16(n))
			for range n {
				sent = append(sent, byte(r.Uint32()))
			}
			ends = append(ends, len(sent))
		}
		pieces := &inPieces{left: sent, next: func() int { return 1 + r.IntN(1<<(1+r.IntN(17))) }}
		c := newRecords(pieces)
		var got []byte
		b := make([]byte, 40<<10)
		for {
			n, err := c.Read(b[:1+r.IntN(len(b))])
			got = append(got, b[:n]...)
			if c.lo == c.hi && c.have == 0 {
				read := len(sent) - len(pieces.left)
				for len(ends) > 0 && read >= ends[0] {
					ends = ends[1:]
				}
				if want := read + c.left; c.left > 0 && (len(ends) == 0 || want != ends[0]) {
					t.Fatalf("%d bytes are waited for until %d, records end at %v", c.left, want, ends)
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes were sent, %d came, or others", len(sent), len(got))
		}
	}
}

// inPieces is a connection that gives as much at a time as next says.
type inPieces struct {
	net.Conn
	left []byte
	next func() int
}

func (p *inPieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.next())], p.left)
	p.left = p.left[n:]
	return n, nil
}

// TestRecordsWait: of a large record the kernel is told what is missing, and after it
// that a byte is enough; the end comes through although the record is not whole.
func TestRecordsWait(t *testing.T) {
	in, out := connected(t)
	_ = in.SetDeadline(time.Now().Add(time.Minute))
	c := newRecords(in)
	low := func() (n int) {
		_ = c.socket.Control(func(fd uintptr) { n, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT) })
		return n
	}
	b := make([]byte, 32<<10)
	read := func(want int) {
		t.Helper()
		if n, err := io.ReadFull(c, b[:want]); err != nil {
			t.Fatalf("%d of %d bytes: %v", n, want, err)
		}
	}
	large := append([]byte{23, 3, 3, 0x40, 0}, make([]byte, 0x4000)...)
	if _, err := out.Write(large[:1005]); err != nil {
		t.Fatal(err)
	}
	read(1005)
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(c, b[:0x4000-1000])
		done <- err
	}()
	for end := time.Now().Add(time.Minute); low() != 0x4000-1000; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the kernel waits for %d bytes, %d are missing", low(), 0x4000-1000)
		}
	}
	if _, err := out.Write(large[1005:]); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	small := []byte{23, 3, 3, 0, 1, 7}
	if _, err := out.Write(small); err != nil {
		t.Fatal(err)
	}
	read(len(small))
	if low() != 1 {
		t.Errorf("before a small record the kernel waited for %d bytes", low())
	}
	if _, err := out.Write(large[:100]); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if n, err := io.ReadFull(c, b[:len(large)]); n != 100 || err != io.ErrUnexpectedEOF {
		t.Errorf("%d bytes of a record of which 100 came, and %v", n, err)
	}
}

// connected are the two ends of a connection.
func connected(t *testing.T) (in, out net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if out, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	if in, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in, out
}
