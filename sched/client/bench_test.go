package client

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/sched/usage"
	"psrt/tiers/table"
)

// BenchmarkEager: pushes whose gradients travel in the slot, copied behind the
// header or written from where they lie, by bytes of gradients and 8 at a time.
// CPU time is of both ends. It is where copyBytes comes from.
func BenchmarkEager(b *testing.B) {
	const rows = 16
	transport := cmp.Or(os.Getenv("PSRT_BENCH_TRANSPORT"), "tcp")
	for _, dim := range []int{4, 8, 16, 32, 60, 128, 512} {
		for _, how := range []struct {
			name      string
			copyBytes int
		}{{"copied", psmsg.SlotBytes}, {"written", rows * 8}} {
			b.Run(fmt.Sprintf("%s/%d/%s", transport, rows*dim*4, how.name), func(b *testing.B) {
				spec := sumTable(1, dim)
				w := newWorld(b, worldConfig{transport: transport, servers: 1, lanes: 1, workers: 1, staleness: server.Async, tables: []table.Spec{spec}})
				c := w.open(0)
				c.copyUpTo(how.copyBytes)
				r := w.rows(c, spec)
				keys := make([]uint64, rows)
				for i := range keys {
					keys[i] = uint64(i)
				}
				plan(b, r, keys)
				pull(b, c, r, 0, AnyClock)
				push(b, c, r, 0)
				var calls [psmsg.Slots]Call
				n := 0
				_, before := usage.Process()
				for b.Loop() {
					call := &calls[n%len(calls)]
					must(b, c.Wait(call))
					must(b, c.Push(r, 1, false, call))
					n++
				}
				for i := range calls {
					must(b, c.Wait(&calls[i]))
				}
				_, after := usage.Process()
				b.ReportMetric((after-before)*1e9/float64(n), "cpu-ns/op")
			})
		}
	}
}

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

// BenchmarkPullDense: a worker pulls a dense vector of 16 MiB. CPU time is of
// both ends.
func BenchmarkPullDense(b *testing.B) {
	const floats = 4 << 20
	for _, transport := range []string{"shm", "tcp"} {
		b.Run(transport, func(b *testing.B) {
			w := newWorld(b, worldConfig{transport: transport, servers: 1, lanes: 1, workers: 1, staleness: server.Async, dense: floats})
			c := w.open(0)
			d, err := c.NewDense(floats, floats/densemap.BlockFloats)
			must(b, err)
			defer d.Close()
			b.SetBytes(floats * 4)
			n := 0
			_, before := usage.Process()
			for b.Loop() {
				var call Call
				must(b, c.PullDense(d, 0, AnyClock, &call))
				must(b, c.Wait(&call))
				n++
			}
			_, after := usage.Process()
			b.ReportMetric((after-before)*1e9/float64(n*floats*4), "cpu-s/GB")
		})
	}
}

// BenchmarkSmallBesideLarge: one client pulls 10 million rows of a lane, again and again,
// while another pulls 8. It reports the median, the 99th percentile and the longest time
// of the small pulls, from the call to its values, and the time of a large one.
func BenchmarkSmallBesideLarge(b *testing.B) {
	const dim, rows = 8, 10_000_000
	for _, transport := range []string{"shm", "tcp"} {
		b.Run(transport, func(b *testing.B) {
			spec := sumTable(1, dim)
			w := newWorld(b, worldConfig{transport: transport, servers: 1, lanes: 1, workers: 2, staleness: server.Async, tables: []table.Spec{spec}})
			large, small := w.open(0), w.open(1)
			r, s := w.rows(large, spec), w.rows(small, spec)
			keys := make([]uint64, rows)
			for i := range keys {
				keys[i] = uint64(i) * 0x9e3779b97f4a7c15
			}
			plan(b, r, keys)
			pull(b, large, r, 0, AnyClock)
			plan(b, s, keys[:8])
			var took []time.Duration
			b.ResetTimer()
			for range b.N {
				done := make(chan error, 1)
				go func() {
					var call Call
					err := large.Pull(r, 0, AnyClock|ReadOnly, &call)
					if err == nil {
						err = large.Wait(&call)
					}
					done <- err
				}()
				for len(done) == 0 {
					start := time.Now()
					pull(b, small, s, 0, AnyClock|ReadOnly)
					took = append(took, time.Since(start))
					time.Sleep(time.Millisecond)
				}
				must(b, <-done)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
			b.ReportMetric(took[len(took)-1].Seconds()*1e3, "max-ms")
			b.ReportMetric(float64(len(took))/float64(b.N), "small/op")
		})
	}
}
