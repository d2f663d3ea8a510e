package sim_test

import (
	"testing"

	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/rdmatest"
	"psrt/rdma/sim"
)

func TestConformance(t *testing.T) {
	for name, cfg := range map[string]sim.Config{
		"perfect": {},
		"rough":   {LatencyMicros: 20, JitterMicros: 30, Loss: 0.02, RetransmitMicros: 200, BytesPerSecond: 2e9},
	} {
		t.Run(name, func(t *testing.T) {
			nets := map[rdma.Domain]*sim.Network{}
			rdmatest.Run(t, rdmatest.Factory{
				Allocates: true,
				New: func(t testing.TB) (a, b rdma.Domain) {
					n, err := sim.New(seedtest.Seed(t), cfg)
					if err != nil {
						t.Fatal(err)
					}
					a, b = n.Domain("alice"), n.Domain("bob")
					nets[b] = n
					return a, b
				},
				Kill: func(t testing.TB, d rdma.Domain) { nets[d].Vanish("bob") },
			})
		})
	}
}
