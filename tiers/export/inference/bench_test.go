package inference

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"psrt/tiers/dram"
	"psrt/tiers/export/quant"
	"psrt/tiers/table"
)

// benchFile is a file of n rows of 17 weights, with keys 0 to n-1.
func benchFile(b *testing.B, e quant.Encoding, n int) string {
	l := quant.Layout{Encoding: e, Dim: 17}
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = Hash(uint64(i))
	}
	slices.Sort(hashes)
	path := filepath.Join(b.TempDir(), "t")
	f, err := os.Create(path)
	check(b, err)
	w, err := NewWriter(f, 1, l, int64(n), table.Digest{})
	check(b, err)
	row, weights := make([]byte, l.Bytes()), make([]float32, l.Dim)
	for _, h := range hashes {
		weights[0] = float32(Key(h))
		check(b, l.Encode(row, weights))
		check(b, w.Add(h, row))
	}
	check(b, w.Close())
	check(b, f.Close())
	return path
}

// BenchmarkGather looks random rows up in batches of 4096, all of the file in
// memory and checked; beside it the same in a table in memory.
func BenchmarkGather(b *testing.B) {
	const n, batch = 1 << 20, 4096
	rng := rand.New(rand.NewPCG(1, 2))
	keys, dst := make([]uint64, batch), make([]float32, batch*17)
	draw := func() {
		for i := range keys {
			keys[i] = rng.Uint64N(n)
		}
	}
	for _, e := range []quant.Encoding{quant.F32, quant.F16, quant.I8} {
		b.Run(e.String(), func(b *testing.B) {
			t, err := Open(benchFile(b, e, n))
			check(b, err)
			defer t.Close()
			for i := range uint64(n) {
				_, err := t.Gather([]uint64{i}, dst)
				check(b, err)
			}
			for b.Loop() {
				draw()
				if found, err := t.Gather(keys, dst); found != batch || err != nil {
					b.Fatal(found, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/row")
		})
	}
	b.Run("dram", func(b *testing.B) {
		t, err := dram.New(table.Spec{Name: "t", ID: 1, Dim: 17, Optimizer: table.Optimizer{Kind: table.SGD}}, 1, dram.Config{Node: -1})
		check(b, err)
		defer t.Close()
		ids, row := make([]uint32, batch), make([]float32, 17)
		for i := range uint64(n) {
			check(b, t.Load(i, row))
		}
		for b.Loop() {
			draw()
			_, err := t.Lookup(keys, ids, false)
			check(b, err)
			t.Gather(ids, dst)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/row")
	})
}

// BenchmarkOpen: the time does not depend on the size.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1 << 10, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := benchFile(b, quant.F32, n)
			for b.Loop() {
				t, err := Open(path)
				check(b, err)
				check(b, t.Close())
			}
		})
	}
}
