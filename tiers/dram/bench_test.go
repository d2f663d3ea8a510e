package dram

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"psrt/tiers/table"
)

// benchRows is below the 10M of the published figures, so that a run is short;
// rows and index are still far larger than the caches.
const benchRows = 2 << 20

func benchTable(b *testing.B, spec table.Spec) *Table {
	tab := open(b, spec, 1, anywhere)
	keys, rows := make([]uint64, 4096), make([]uint32, 4096)
	for at := 0; at < benchRows; at += len(keys) {
		for i := range keys {
			keys[i] = uint64(at + i)
		}
		if _, err := tab.Lookup(keys, rows, true); err != nil {
			b.Fatal(err)
		}
	}
	return tab
}

// BenchmarkTable gives ns a row, beside the limit of the same run: a prefetched
// gather whose row numbers are known, in the same random order.
func BenchmarkTable(b *testing.B) {
	spec := table.Spec{Name: "bench", ID: 1, Dim: 16, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.SGD}}
	tab := benchTable(b, spec)
	const batch = 4096
	keys := make([]uint64, 64*batch)
	for i := range keys {
		keys[i] = rand.Uint64N(benchRows)
	}
	all, rows, dst := make([]uint32, len(keys)), make([]uint32, batch), make([]float32, batch*spec.Dim)
	if _, err := tab.Lookup(keys, all, false); err != nil {
		b.Fatal(err)
	}
	limit := 0.0
	for _, c := range []struct {
		name string
		run  func(at int) error
	}{
		{"gather", func(at int) error { tab.Gather(all[at:at+batch], dst); return nil }},
		{"lookup", func(at int) error { _, err := tab.Lookup(keys[at:at+batch], rows, false); return err }},
		{"lookup+gather", func(at int) error {
			_, err := tab.Lookup(keys[at:at+batch], rows, false)
			tab.Gather(rows, dst)
			return err
		}},
		{"upsert known", func(at int) error { _, err := tab.Lookup(keys[at:at+batch], rows, true); return err }},
		{"apply sgd", func(at int) error { tab.Apply(all[at:at+batch], dst); return nil }},
	} {
		b.Run(c.name, func(b *testing.B) {
			at := 0
			for b.Loop() {
				if err := c.run(at); err != nil {
					b.Fatal(err)
				}
				at = (at + batch) % len(keys)
			}
			ns := float64(b.Elapsed().Nanoseconds()) / float64(b.N*batch)
			b.ReportMetric(ns, "ns/row")
			if c.name == "gather" {
				limit = ns
			}
			b.ReportMetric(ns/limit, "x-gather")
		})
	}
}

// BenchmarkBirth is the cost of a new row, growth of index and slabs included.
func BenchmarkBirth(b *testing.B) {
	for _, dim := range []int{16, 64} {
		b.Run(fmt.Sprint(dim), func(b *testing.B) {
			const n, batch = 200000, 4000
			keys, rows := make([]uint64, batch), make([]uint32, batch)
			for b.Loop() {
				tab, err := New(testSpec(dim), 1, anywhere)
				if err != nil {
					b.Fatal(err)
				}
				for at := 0; at < n; at += batch {
					for i := range keys {
						keys[i] = uint64(at + i)
					}
					if _, err := tab.Lookup(keys, rows, true); err != nil {
						b.Fatal(err)
					}
				}
				if err := tab.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
		})
	}
}

// BenchmarkApplyFar applies gradients that another core has just written, as a
// lane does with those of a worker over shared memory, beside ones that this
// core holds already.
func BenchmarkApplyFar(b *testing.B) {
	for _, dim := range []int{16, 64} {
		spec := table.Spec{Name: "bench", ID: 1, Dim: dim, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.SGD}}
		tab := benchTable(b, spec)
		const batch = 4096
		keys, rows, grads := make([]uint64, batch), make([]uint32, batch), make([]float32, batch*dim)
		for i := range keys {
			keys[i] = rand.Uint64N(benchRows)
		}
		if _, err := tab.Lookup(keys, rows, false); err != nil {
			b.Fatal(err)
		}
		for _, far := range []bool{false, true} {
			b.Run(fmt.Sprint(dim, " far=", far), func(b *testing.B) {
				var turn atomic.Int32 // 1: write, 2: end
				var wg sync.WaitGroup
				wg.Go(func() {
					runtime.LockOSThread()
					for {
						switch turn.Load() {
						case 1:
							for i := range grads {
								grads[i]++
							}
							turn.Store(0)
						case 2:
							return
						}
					}
				})
				runtime.LockOSThread()
				var took time.Duration
				for b.Loop() {
					if far {
						turn.Store(1)
						for turn.Load() != 0 {
						}
					}
					start := time.Now()
					tab.Apply(rows, grads)
					took += time.Since(start)
				}
				turn.Store(2)
				wg.Wait()
				runtime.UnlockOSThread()
				b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*batch), "ns/row")
			})
		}
	}
}
