package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// TestUpdateInto holds every level's UpdateInto, apart and in place, against
// Update of the same row, to the bit.
func TestUpdateInto(t *testing.T) {
	r := seedtest.Rand(t)
	for _, rule := range testRules {
		for dim := 1; dim <= 67; dim++ {
			stride := dim + rule.Kind.StateFloats(dim)
			rows, row := makeRows(t, 1, stride, 0)
			start, grad := make([]float32, stride), make([]float32, dim)
			for _, hard := range []int{0, 3 * dim} {
				fill(r, start, hard)
				fill(r, grad, hard)
				newState(&rule, dim, start)
				copy(row, start)
				refused := Go.Update(&rule, dim, rows, []uint32{0}, grad)
				for _, l := range Levels() {
					w, state, dst := slices.Clone(start[:dim]), slices.Clone(start[dim:]), make([]float32, dim)
					got := l.UpdateInto(&rule, dst, w, state, grad)
					if got != refused {
						t.Fatalf("%s: level %v refuses %d, want %d", rule.name(dim), l, got, refused)
					}
					if i := firstDifference(w, start[:dim]); i >= 0 {
						t.Fatalf("%s: level %v changed weight %d that it was to read", rule.name(dim), l, i)
					}
					want := row
					if refused == 1 {
						want = append(make([]float32, dim), start[dim:]...)
					}
					if i := firstDifference(append(dst, state...), want); i >= 0 {
						t.Fatalf("%s: level %v: float %d differs from Update's", rule.name(dim), l, i)
					}
					state = slices.Clone(start[dim:])
					l.UpdateInto(&rule, w, w, state, grad)
					if i := firstDifference(append(w, state...), row); i >= 0 {
						t.Fatalf("%s: level %v in place: float %d differs from Update's: %x", rule.name(dim), l, i, math.Float32bits(row[i]))
					}
				}
			}
		}
	}
}

func TestUpdateIntoLengths(t *testing.T) {
	rule := Rule{Kind: AdaGrad, LR: 0.1}
	for i, n := range [][4]int{{0, 0, 0, 0}, {2, 1, 2, 2}, {2, 2, 1, 2}, {2, 2, 2, 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("case %d: lengths %v were accepted", i, n)
				}
			}()
			UpdateInto(&rule, make([]float32, n[0]), make([]float32, n[1]), make([]float32, n[2]), make([]float32, n[3]))
		}()
	}
}

// BenchmarkUpdateInto: a block's new weights where readers will look for them,
// beside an update in place and a copy of the result. GB/s of gradient; "cold"
// is 64 MiB of blocks.
func BenchmarkUpdateInto(b *testing.B) {
	const dim = 1 << 14
	for _, size := range []struct {
		name   string
		blocks int
	}{{"hot", 1}, {"cold", 1 << 10}} {
		for _, rule := range []Rule{testRules[0], testRules[2], testRules[6]} {
			n := size.blocks * dim
			w, o, g, s := offHeap(b, n), offHeap(b, n), offHeap(b, n), offHeap(b, size.blocks*(rule.Kind.StateFloats(dim)+1))
			for _, x := range [][]float32{w, o, g, s} {
				for i := range x {
					x[i] = 1
				}
			}
			limit := copyGBps(b, n)
			bench := func(how string, block func(o, w, s, g []float32)) {
				b.Run(fmt.Sprintf("%s/kind%d/%s", size.name, rule.Kind, how), func(b *testing.B) {
					state := rule.Kind.StateFloats(dim)
					for b.Loop() {
						for i := range size.blocks {
							block(o[i*dim:][:dim], w[i*dim:][:dim], s[i*state:][:state], g[i*dim:][:dim])
						}
						o, w = w, o
					}
					report(b, n*4, limit)
				})
			}
			bench("into", func(o, w, s, g []float32) { UpdateInto(&rule, o, w, s, g) })
			bench("copied", func(o, w, s, g []float32) {
				UpdateInto(&rule, w, w, s, g)
				copy(o, w)
			})
		}
	}
}
