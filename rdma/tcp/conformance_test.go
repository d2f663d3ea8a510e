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
	for name, cfg := range map[string]tcp.Config{
		"one stream":    {Streams: 1},
		"three streams": {Streams: 3},
		"under TLS":     {Streams: 2, Cover: tcp.CoverAll},
	} {
		t.Run(name, func(t *testing.T) {
			rdmatest.Run(t, rdmatest.Factory{Kill: vanish, Allocates: cfg.Cover == tcp.CoverAll, New: func(t testing.TB) (a, b rdma.Domain) {
				var ds [2]rdma.Domain
				for i := range ds {
					cfg.Listen = "127.0.0.1:0"
					d, err := tcp.New(cfg)
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
