package client

import (
	"fmt"
	"sync"
	"testing"

	"psrt/sched/densemap"
	"psrt/sched/server"
)

// BenchmarkPushDense: workers push a dense vector as fast as it is summed, over
// each transport and fetched both ways.
func BenchmarkPushDense(b *testing.B) {
	const floats = 1 << 20
	for _, transport := range transports {
		for _, workers := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/%d", transport, workers), func(b *testing.B) {
				w := newWorld(b, worldConfig{transport: transport, servers: 1, lanes: 1, workers: workers, staleness: server.Async, dense: floats})
				clients, vectors := make([]*Client, workers), make([]*Dense, workers)
				for i := range clients {
					clients[i] = w.open(i)
					var err error
					vectors[i], err = clients[i].NewDense(floats, floats/densemap.BlockFloats)
					must(b, err)
				}
				b.SetBytes(floats * 4)
				b.ResetTimer()
				var all sync.WaitGroup
				for i, c := range clients {
					all.Go(func() {
						for range b.N/workers + 1 {
							var call Call
							if err := c.PushDense(vectors[i], 0, true, &call); err != nil {
								b.Error(err)
								return
							}
							if err := c.Wait(&call); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}
