package quic

import (
	"sync"
	"testing"

	"psrt/rdma"
	"psrt/rdma/rdmatest"
	"psrt/rdma/tcp"
)

func TestConformance(t *testing.T) {
	var mu sync.Mutex
	carriers := map[rdma.Domain]*Carrier{}
	rdmatest.Run(t, rdmatest.Factory{
		Allocates: true,
		// What the kernel does when a process is killed: its packets stop, and its
		// peers are told nothing.
		Kill: func(t testing.TB, d rdma.Domain) {
			mu.Lock()
			defer mu.Unlock()
			c := carriers[d]
			c.mu.Lock()
			defer c.mu.Unlock()
			_ = c.socket.Conn.Close()
		},
		New: func(t testing.TB) (a, b rdma.Domain) {
			mu.Lock()
			defer mu.Unlock()
			var ds [2]rdma.Domain
			for i := range ds {
				c, err := New()
				if err != nil {
					t.Fatal(err)
				}
				ds[i] = open(t, tcp.Config{Carrier: c, Listen: "127.0.0.1:0", Streams: 1 + i})
				carriers[ds[i]] = c
			}
			return ds[0], ds[1]
		},
	})
}
