package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func TestHeaderRoundTrip(t *testing.T) {
	for _, h := range []Header{{}, {Kind: 1, Flags: 2, Length: 3}, {Kind: 255, Flags: 65535, Length: 1<<32 - 1}} {
		for _, extension := range []int{0, 1, 48} {
			b := bytes.Repeat([]byte{0xa5}, HeaderSize+extension)
			h.Encode(b)
			got, err := Decode(b, 1<<32-1)
			if err != nil || got != h {
				t.Fatalf("%+v with %d bytes of extension came back as %+v, %v", h, extension, got, err)
			}
		}
	}
}

// Every single flipped bit of header and extension must be noticed.
func TestDecodeNoticesEveryBit(t *testing.T) {
	b := make([]byte, HeaderSize+48)
	for i := range b {
		b[i] = byte(i * 7)
	}
	Header{Kind: 7, Flags: 9, Length: 11}.Encode(b)
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := Decode(b, 1<<32-1); !errors.Is(err, ErrFrame) {
			t.Fatalf("bit %d flipped: got %v", bit, err)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := make([]byte, HeaderSize)
	Header{Kind: 1, Length: 101}.Encode(good)
	version := bytes.Clone(good)
	version[4] = 9
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"short", good[:HeaderSize-1], "15 bytes"},
		{"stranger", []byte("GET / HTTP/1.1\r\n\r\n"), "not psrt"},
		{"version", version, "version 9, this program speaks 1"},
		{"length", good, "announces 101 bytes, the limit is 100"},
	} {
		_, err := Decode(c.b, 100)
		if !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want text %q", c.name, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good := make([]byte, HeaderSize+4)
	Header{Kind: 3, Flags: 4, Length: 5}.Encode(good)
	f.Add(good)
	f.Add(good[:HeaderSize])
	f.Add([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Decode(b, 1<<20)
		if err != nil {
			if !errors.Is(err, ErrFrame) {
				t.Fatalf("error outside the set: %v", err)
			}
			return
		}
		if h.Length > 1<<20 {
			t.Fatalf("length %d passed the limit", h.Length)
		}
		again := bytes.Clone(b)
		h.Encode(again)
		if !bytes.Equal(again, b) {
			t.Fatalf("accepted bytes %x are not what Encode writes: %x", b, again)
		}
	})
}

func TestFrames(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	deadline := time.Now().Add(time.Minute)
	payloads := [][]byte{nil, []byte("x"), bytes.Repeat([]byte("ab"), 5000)}
	errs := make(chan error, 1)
	go func() {
		for i, p := range payloads {
			if err := WriteFrame(a, uint8(i), p, 1<<20, deadline); err != nil {
				errs <- err
				return
			}
		}
		errs <- a.Close()
	}()
	for i, p := range payloads {
		h, got, err := ReadFrame(b, 1<<20, deadline)
		if err != nil || h.Kind != uint8(i) || !bytes.Equal(got, p) {
			t.Fatalf("frame %d: %+v, %d bytes, %v", i, h, len(got), err)
		}
	}
	// A pipe whose other end has been closed refuses the deadline already.
	if _, _, err := ReadFrame(b, 1<<20, deadline); err != io.EOF && err != io.ErrClosedPipe {
		t.Fatalf("after the last frame: %v, want io.EOF", err)
	}
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
}

func TestFrameLimitsAndDeadlines(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	soon := func() time.Time { return time.Now().Add(20 * time.Millisecond) }
	if err := WriteFrame(a, 1, make([]byte, 11), 10, soon()); !errors.Is(err, ErrFrame) {
		t.Errorf("too long a payload: %v", err)
	}
	if err := WriteFrame(a, 1, nil, 10, soon()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody reads: %v", err)
	}
	if _, _, err := ReadFrame(b, 10, soon()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody writes: %v", err)
	}
	_ = a.SetWriteDeadline(time.Time{})
	go func() {
		head := make([]byte, HeaderSize)
		Header{Kind: 1, Length: 5}.Encode(head)
		_, _ = a.Write(append(head, 'x'))
		_ = a.Close()
	}()
	if _, _, err := ReadFrame(b, 10, time.Now().Add(time.Minute)); err != io.ErrUnexpectedEOF {
		t.Errorf("end inside a frame: %v", err)
	}
}

func TestGate(t *testing.T) {
	open := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	g := NewGate(2)
	var conns []net.Conn
	for range 4 {
		c, far := net.Pipe()
		defer far.Close()
		defer c.Close()
		conns = append(conns, c)
	}
	if g.Enter(conns[0]) != nil || g.Enter(conns[1]) != nil {
		t.Fatal("evicted although there was room")
	}
	if !g.Leave(conns[1]) || g.Leave(conns[1]) {
		t.Fatal("Leave must find a connection once")
	}
	if g.Enter(conns[1]) != nil || g.Enter(conns[2]) != conns[0] || open(conns[0]) {
		t.Fatal("a full gate must close its oldest connection")
	}
	if !open(conns[1]) || !open(conns[2]) {
		t.Fatal("the younger ones must stay open")
	}
	g.Close()
	if open(conns[1]) || open(conns[2]) || g.Enter(conns[3]) != conns[3] || open(conns[3]) {
		t.Fatal("Close must close what is inside and what comes later")
	}
}
