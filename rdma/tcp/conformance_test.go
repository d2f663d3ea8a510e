package tcp_test

import (
	"testing"

	"psrt/rdma"
	"psrt/rdma/rdmatest"
	"psrt/rdma/tcp"
)

func vanish(t testing.TB, d rdma.Domain) {
	if err := tcp.Vanish(d); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	for _, streams := range []int{1, 3} {
		t.Run(map[int]string{1: "one stream", 3: "three streams"}[streams], func(t *testing.T) {
			rdmatest.Run(t, rdmatest.Factory{Kill: vanish, New: func(t testing.TB) (a, b rdma.Domain) {
				var ds [2]rdma.Domain
				for i := range ds {
					d, err := tcp.New(tcp.Config{Listen: "127.0.0.1:0", Streams: streams})
					if err != nil {
						t.Fatal(err)
					}
					ds[i] = d
				}
				return ds[0], ds[1]
			}})
		})
	}
}
