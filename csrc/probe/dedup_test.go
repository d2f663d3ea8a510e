package probe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// naiveDedup is the second opinion: a Go map.
func naiveDedup[K comparable](keys []K) (occ []int32, uniq []K) {
	seen := map[K]int32{}
	for _, k := range keys {
		n, ok := seen[k]
		if !ok {
			n = int32(len(uniq))
			seen[k] = n
			uniq = append(uniq, k)
		}
		occ = append(occ, n)
	}
	return occ, uniq
}

func checkAgainstNaive[K uint32 | uint64](t *testing.T, keys []K, run func(keys []K, occ []int32, uniq []K) int) {
	t.Helper()
	occ, uniq := make([]int32, len(keys)), make([]K, len(keys))
	n := run(keys, occ, uniq)
	wantOcc, wantUniq := naiveDedup(keys)
	if n != len(wantUniq) || !slices.Equal(uniq[:n], wantUniq) || !slices.Equal(occ, wantOcc) {
		t.Fatalf("%d keys: %d distinct, want %d; or another numbering", len(keys), n, len(wantUniq))
	}
}

func TestDedup(t *testing.T) {
	r := seedtest.Rand(t)
	var s, plain DedupScratch
	for _, n := range []int{0, 1, 2, 15, 16, 17, 31, 33, 1000, 40000, 3} { // large before small: stale slots stay behind
		for _, vocab := range []uint64{1, 10, 1 << 12, 1 << 62} {
			keys, small := make([]uint64, n), make([]uint32, n)
			for i := range keys {
				keys[i] = r.Uint64N(vocab) * r.Uint64N(3) // many zeros
				if r.IntN(20) == 0 {
					keys[i] = ^uint64(0)
				}
				small[i] = uint32(keys[i])
			}
			checkAgainstNaive(t, keys, func(k []uint64, o []int32, u []uint64) int { return Dedup(&s, k, o, u) })
			checkAgainstNaive(t, small, func(k []uint32, o []int32, u []uint32) int { return DedupU32(&s, k, o, u) })
			if n > 0 {
				checkAgainstNaive(t, keys, func(k []uint64, o []int32, u []uint64) int {
					slots := plain.prepare(len(k))
					return plainDedup(slots, plain.gen, k, o, u)
				})
			}
		}
	}
}

func TestDedupStampsWrap(t *testing.T) {
	var s DedupScratch
	keys := []uint64{5, 6, 5}
	run := func(k []uint64, o []int32, u []uint64) int { return Dedup(&s, k, o, u) }
	checkAgainstNaive(t, keys, run)
	s.gen = ^uint32(0) - 1
	for range 3 { // the first slot written above carries stamp 1, which comes again
		checkAgainstNaive(t, keys, run)
	}
	if s.gen != 2 {
		t.Fatalf("stamp %d after wrapping, want 2", s.gen)
	}
}

func TestDedupAllocatesOnce(t *testing.T) {
	var s DedupScratch
	keys, occ, uniq := make([]uint64, 500), make([]int32, 500), make([]uint64, 500)
	Dedup(&s, keys, occ, uniq)
	if n := testing.AllocsPerRun(20, func() { Dedup(&s, keys, occ, uniq) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func TestDedupRefusesShortResults(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a result slice shorter than the keys was accepted")
		}
	}()
	var s DedupScratch
	Dedup(&s, make([]uint64, 3), make([]int32, 3), make([]uint64, 2))
}

func BenchmarkDedup(b *testing.B) {
	for _, n := range []int{4096, 131072} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			keys, occ, uniq := make([]uint64, n), make([]int32, n), make([]uint64, n)
			for i := range keys {
				keys[i] = r.Uint64N(uint64(n))
			}
			var s DedupScratch
			for b.Loop() {
				Dedup(&s, keys, occ, uniq)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/key")
		})
	}
}
