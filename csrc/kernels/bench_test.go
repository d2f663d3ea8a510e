package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// copyGBps is the limit beside the figures: memory read by a plain copy of the
// same size, in the same run.
func copyGBps(b *testing.B, floats int) float64 {
	src, dst := offHeap(b, floats), offHeap(b, floats)
	copy(dst, src)
	best := time.Duration(1 << 62)
	for range 5 { // the best of five: other work on the machine only slows
		start := time.Now()
		for range 8 {
			copy(dst, src)
		}
		best = min(best, time.Since(start))
	}
	return float64(floats) * 4 * 8 / float64(best.Nanoseconds())
}

func report(b *testing.B, bytes int, limit float64) {
	rate := float64(bytes) * float64(b.N) / float64(b.Elapsed().Nanoseconds())
	b.ReportMetric(rate, "GB/s")
	b.ReportMetric(rate/limit, "x-copy")
}

// BenchmarkUpdate: GB/s of gradient, rows visited at random. "hot" rows stay in
// the cache, "cold" ones do not.
func BenchmarkUpdate(b *testing.B) {
	const dim = 64
	for _, size := range []struct {
		name  string
		count int
	}{{"hot", 512}, {"cold", 1 << 17}} {
		limit := copyGBps(b, size.count*dim)
		for _, rule := range []Rule{testRules[0], testRules[2], testRules[4], testRules[6], testRules[8]} {
			for _, l := range Levels() {
				b.Run(fmt.Sprintf("%s/kind%d/%v", size.name, rule.Kind, l), func(b *testing.B) {
					stride := dim + rule.Kind.StateFloats(dim)
					rows, mem := makeRows(b, size.count, stride, 12)
					for i := range size.count {
						newState(&rule, dim, mem[i*stride:(i+1)*stride])
					}
					ids, grads := make([]uint32, 4096), make([]float32, 4096*dim)
					for i := range ids {
						ids[i] = rand.Uint32N(uint32(size.count))
					}
					for i := range grads {
						grads[i] = float32(rand.NormFloat64())
					}
					b.ResetTimer()
					for b.Loop() {
						l.Update(&rule, dim, rows, ids, grads)
					}
					report(b, len(grads)*4, limit)
				})
			}
		}
	}
}

// BenchmarkSum: GB/s of sources read.
func BenchmarkSum(b *testing.B) {
	const n = 8
	for _, floats := range []int{1 << 13, 1 << 20} {
		limit := copyGBps(b, floats)
		srcs := make([][]float32, n)
		for i := range srcs {
			srcs[i] = offHeap(b, floats)
			clear(srcs[i])
		}
		dst := offHeap(b, floats)
		for _, l := range Levels() {
			b.Run(fmt.Sprintf("chain/%d/%v", floats, l), func(b *testing.B) {
				for b.Loop() {
					l.Sum(dst, srcs)
				}
				report(b, n*floats*4, limit)
			})
			b.Run(fmt.Sprintf("tree/%d/%v", floats, l), func(b *testing.B) {
				for b.Loop() {
					l.TreeSum(dst, srcs, treeMerges(n))
				}
				report(b, n*floats*4, limit)
			})
		}
	}
}

// BenchmarkTreeSumRows: 64 leaves with a twentieth of the rows each, as a batch
// of sparse gradients has; ns a present row.
func BenchmarkTreeSumRows(b *testing.B) {
	const leaves, rows, dim = 64, 4096, 17
	srcs, idx, present := make([][]float32, leaves), make([][]int32, leaves), 0
	for i := range srcs {
		srcs[i], idx[i] = make([]float32, rows*dim/10), make([]int32, rows)
		for u, next := 0, int32(0); u < rows; u++ {
			idx[i][u] = -1
			if rand.IntN(20) == 0 {
				idx[i][u] = next
				next++
				present++
			}
		}
	}
	dst := make([]float32, rows*dim)
	for _, l := range Levels() {
		b.Run(l.String(), func(b *testing.B) {
			for b.Loop() {
				l.TreeSumRows(dst, dim, rows, srcs, idx, treeMerges(leaves))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*present), "ns/row")
		})
	}
}
