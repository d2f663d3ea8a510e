package allreduce

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"
)

// TestStream: two ends of a ring exchange more than a socket holds; one whose peer is
// gone says so, and one whose peer does nothing, too.
func TestStream(t *testing.T) {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var ends [2]limit
	opened := make(chan error, 1)
	other, err := net.Listen("tcp", loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() { opened <- ends[1].open(other, l.Addr().String()) }()
	if err := ends[0].open(l, other.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	const n = 24 << 20
	send := bytes.Repeat([]byte{1, 2, 3}, 1<<20)
	recv := [2][]byte{make([]byte, len(send)), make([]byte, len(send))}
	ran := make(chan error, 1)
	soon := func() time.Time { return time.Now().Add(patience) }
	go func() { ran <- ends[1].stream.run(send, recv[1], n, soon()) }()
	if err := ends[0].stream.run(send, recv[0], n, soon()); err != nil {
		t.Fatal(err)
	}
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	for i := range recv {
		if !bytes.Equal(recv[i], send) {
			t.Errorf("end %d took other bytes than were sent", i)
		}
	}
	if err := ends[0].stream.run(send, recv[0], n, time.Now()); err == nil || !strings.Contains(err.Error(), "a rank does not run") {
		t.Errorf("beside one that does nothing: %v", err)
	}
	if err := ends[1].close(); err != nil {
		t.Error(err)
	}
	if err := ends[0].stream.run(send, recv[0], n, soon()); err == nil {
		t.Error("beside one that is gone: no error")
	}
	if err := ends[0].close(); err != nil {
		t.Error(err)
	}
}
