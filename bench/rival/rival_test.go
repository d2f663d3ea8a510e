package rival

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/rdma/shm"
)

// TestAgainstMap plays random pulls and pushes against plain rows, over a
// socket and over shared memory.
func TestAgainstMap(t *testing.T) {
	for name, streams := range map[string]func(*testing.T) (io.ReadWriter, io.ReadWriter){"socket": sockets, "shm": messages} {
		t.Run(name, func(t *testing.T) {
			const floats = 5
			r := seedtest.Rand(t)
			here, there := streams(t)
			table := NewTable(floats, 0.5, 0)
			go table.Serve(there)
			c := NewClient(here)
			plain := map[uint64][floats]float32{}
			for range 40 {
				n := r.IntN(20000)
				keys, values := make([]uint64, n), make([]float32, n*floats)
				seen := map[uint64]bool{}
				for i := range keys {
					for keys[i] = r.Uint64N(50000); seen[keys[i]]; keys[i] = r.Uint64N(50000) {
					}
					seen[keys[i]] = true
				}
				if err := c.Pull(keys, floats, values); err != nil {
					t.Fatal(err)
				}
				for i, k := range keys {
					if row := plain[k]; !bytes.Equal(bytesOf(row[:]), bytesOf(values[i*floats:][:floats])) {
						t.Fatalf("row %d is %v, want %v", k, values[i*floats:][:floats], row)
					}
				}
				for i := range values {
					values[i] = float32(r.IntN(100))
				}
				if err := c.Push(keys, floats, values); err != nil {
					t.Fatal(err)
				}
				for i, k := range keys {
					row := plain[k]
					for j := range row {
						row[j] -= 0.5 * values[i*floats+j]
					}
					plain[k] = row
				}
			}
		})
	}
}

func sockets(t *testing.T) (a, b io.ReadWriter) {
	x, y := net.Pipe()
	t.Cleanup(func() { x.Close(); y.Close() })
	return x, y
}

func messages(t *testing.T) (a, b io.ReadWriter) {
	var eps [2]rdma.Endpoint
	var qs [2]rdma.Queue
	var mems [2][]byte
	for i := range eps {
		d, err := shm.New(shm.Config{Purpose: "rival"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := mem.New(mem.Config{Size: StreamBytes, Node: -1, Purpose: "rival", Share: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close(); m.Close() })
		reg, err := d.Register(m, rdma.AccessAll, "rival")
		if err != nil {
			t.Fatal(err)
		}
		mems[i] = reg.Bytes()
		if qs[i], err = d.NewQueue(2 * Messages); err != nil {
			t.Fatal(err)
		}
		if eps[i], err = d.NewEndpoint(rdma.EndpointConfig{Queue: qs[i], SendDepth: Messages, RecvDepth: Messages, Peer: "rival"}); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(time.Minute)
	other := make(chan error, 1)
	go func() { other <- eps[1].Connect(eps[0].Address(), deadline) }()
	if err := errors.Join(eps[0].Connect(eps[1].Address(), deadline), <-other); err != nil {
		t.Fatal(err)
	}
	x, err := NewStream(eps[0], qs[0], mems[0], time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	y, err := NewStream(eps[1], qs[1], mems[1], time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return x, y
}

func FuzzMessage(f *testing.F) {
	var b [HeadBytes]byte
	header{kindPush, 2, 3}.put(b[:])
	f.Add(append(b[:], make([]byte, 40)...))
	f.Add(b[:7])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, err := receive(bytes.NewReader(b), nil)
		if err == nil && (len(body) != h.body() || len(b) < HeadBytes+len(body)) {
			t.Errorf("%x is read as %+v with %d bytes", b, h, len(body))
		}
	})
}
