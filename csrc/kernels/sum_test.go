package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"psrt/csrc/seedtest"
)

// treeMerges is the binary tree over n leaves; shuffled lists are the general
// case, in which sources are used again after they were merged.
func treeMerges(n int) (m []Merge) {
	for step := 1; step < n; step *= 2 {
		for i := 0; i+step < n; i += 2 * step {
			m = append(m, Merge{int32(i), int32(i + step)})
		}
	}
	return m
}

func randomMerges(r *rand.Rand, n, count int) (m []Merge) {
	for n > 1 && len(m) < count {
		d, s := r.Int32N(int32(n)), r.Int32N(int32(n))
		if d != s {
			m = append(m, Merge{d, s})
		}
	}
	return m
}

// randomTree merges what is left in any order, and now and then leaves some.
func randomTree(r *rand.Rand, n int) (m []Merge) {
	left := make([]int32, n)
	for i := range left {
		left[i] = int32(i)
	}
	for len(left) > 1 && r.IntN(50) > 0 {
		s := 1 + r.IntN(len(left)-1)
		d := r.IntN(len(left) - 1)
		if d >= s {
			d++
		}
		m = append(m, Merge{left[d], left[s]})
		left = append(left[:s], left[s+1:]...)
	}
	return m
}

func TestTreeSumRows(t *testing.T) {
	r := seedtest.Rand(t)
	for range 400 {
		dim, rows, n := 1+r.IntN(67), 1+r.IntN(50), 1+r.IntN(8)
		if r.IntN(4) == 0 {
			n = 60 + r.IntN(80) // more merges than bits in a word
		}
		merges := treeMerges(n)
		switch r.IntN(3) {
		case 0:
			merges = randomMerges(r, n, 2*n)
		case 1:
			merges = merges[:r.IntN(len(merges)+1)] // several roots
		}
		srcs, idx := make([][]float32, n), make([][]int32, n)
		for i := range srcs {
			have := r.IntN(20)
			if have > 0 {
				srcs[i] = make([]float32, have*dim)
				fill(r, srcs[i], 50)
			}
			idx[i] = make([]int32, rows)
			for u := range idx[i] {
				idx[i][u] = -1
				if have > 0 && r.IntN(3) == 0 {
					idx[i][u] = r.Int32N(int32(have))
				}
			}
		}
		want := make([]float32, rows*dim)
		Go.TreeSumRows(want, dim, rows, srcs, idx, merges)
		checkRowSums(t, want, dim, srcs, idx, merges)
		for _, l := range Levels() {
			dst := make([]float32, rows*dim)
			fill(r, dst, 0)
			l.TreeSumRows(dst, dim, rows, srcs, idx, merges)
			if i := firstDifference(dst, want); i >= 0 {
				t.Fatalf("level %v, dim %d, %d sources, %d merges: row %d float %d is %v, want %v", l, dim, n, len(merges), i/dim, i%dim, dst[i], want[i])
			}
		}
	}
}

// checkRowSums is api's definition, element by element.
func checkRowSums(t *testing.T, got []float32, dim int, srcs [][]float32, idx [][]int32, merges []Merge) {
	t.Helper()
	for at := range got {
		u, j := at/dim, at%dim
		type value struct {
			x  float32
			ok bool
		}
		x := make([]value, len(srcs))
		for i := range srcs {
			if k := idx[i][u]; k >= 0 {
				x[i] = value{srcs[i][int(k)*dim+j], true}
			}
		}
		for _, m := range merges {
			switch {
			case !x[m.Src].ok:
			case !x[m.Dst].ok:
				x[m.Dst] = x[m.Src]
			default:
				x[m.Dst].x += x[m.Src].x
			}
		}
		if i := firstDifference([]float32{got[at]}, []float32{x[0].x}); i >= 0 {
			t.Fatalf("row %d float %d is %v, want %v", u, j, got[at], x[0].x)
		}
	}
}

func TestTreeSum(t *testing.T) {
	r := seedtest.Rand(t)
	for _, length := range []int{0, 1, 15, 16, 17, 511, 512, 513, 3000} {
		for _, n := range []int{1, 2, 3, 7, 64, 130} {
			for _, merges := range [][]Merge{treeMerges(n), randomTree(r, n), randomTree(r, n), randomMerges(r, n, 3*n), nil} {
				srcs, idx := make([][]float32, n), make([][]int32, n)
				for i := range srcs {
					idx[i] = []int32{-1}
					if r.IntN(4) > 0 {
						srcs[i] = make([]float32, length)
						fill(r, srcs[i], 50)
						idx[i][0] = 0
					}
				}
				want := make([]float32, length)
				if length > 0 {
					Go.TreeSumRows(want, length, 1, srcs, idx, merges)
				}
				for _, l := range Levels() {
					dst := make([]float32, length)
					fill(r, dst, 0)
					l.TreeSum(dst, srcs, merges)
					if i := firstDifference(dst, want); i >= 0 {
						t.Fatalf("level %v: %d sources of %d: float %d is %v, want %v", l, n, length, i, dst[i], want[i])
					}
				}
			}
		}
	}
}

func TestSum(t *testing.T) {
	r := seedtest.Rand(t)
	for n := 1; n <= 12; n++ {
		for _, length := range []int{1, 16, 67, 513, 1500} {
			srcs := make([][]float32, n)
			exact := make([]float64, length)
			for i := range srcs {
				srcs[i] = make([]float32, length)
				fill(r, srcs[i], 0)
				for j, x := range srcs[i] {
					exact[j] += float64(x)
				}
			}
			want := make([]float32, length)
			Go.Sum(want, srcs)
			for j := range want {
				if math.Abs(float64(want[j])-exact[j]) > 1e-4 {
					t.Fatalf("%d sources: float %d is %v, want %v", n, j, want[j], exact[j])
				}
			}
			for _, l := range Levels() {
				first := append([]float32(nil), srcs[0]...) // dst may be the first source
				l.Sum(first, append([][]float32{first}, srcs[1:]...))
				dst := make([]float32, length)
				l.Sum(dst, srcs)
				if firstDifference(dst, want) >= 0 || firstDifference(first, want) >= 0 {
					t.Fatalf("level %v: %d sources of %d differ from go", l, n, length)
				}
			}
		}
	}
}

// TestLargeSums: results that are streamed past the caches, and begin anywhere.
func TestLargeSums(t *testing.T) {
	r := seedtest.Rand(t)
	const length = 1<<19 + 1234
	for _, n := range []int{1, 2, 8, 9} {
		for _, at := range []int{0, 1, 7, 15} {
			srcs := make([][]float32, n)
			for i := range srcs {
				srcs[i] = make([]float32, length+i)[i:]
				fill(r, srcs[i][:4096], 50)
				fill(r, srcs[i][length-4096:], 50)
			}
			want, wantTree := make([]float32, length), make([]float32, length)
			Go.Sum(want, srcs)
			Go.TreeSum(wantTree, srcs, treeMerges(n))
			for _, l := range Levels() {
				all := make([]float32, at+length+1)
				dst := all[at : at+length]
				l.Sum(dst, srcs)
				if i := firstDifference(dst, want); i >= 0 {
					t.Fatalf("level %v: %d sources, result at %d: float %d is %v, want %v", l, n, at, i, dst[i], want[i])
				}
				l.TreeSum(dst, srcs, treeMerges(n))
				if i := firstDifference(dst, wantTree); i >= 0 {
					t.Fatalf("level %v: tree of %d, result at %d: float %d is %v, want %v", l, n, at, i, dst[i], wantTree[i])
				}
				if at > 0 && all[at-1] != 0 || all[at+length] != 0 {
					t.Fatalf("level %v: %d sources, result at %d: written outside", l, n, at)
				}
			}
		}
	}
}

func TestScan(t *testing.T) {
	for _, length := range []int{0, 1, 127, 128, 129, 1000} {
		src := make([]float32, length)
		for i := range src {
			src[i] = float32(i)
		}
		for _, l := range Levels() {
			if got := l.Scan(src); got != float32(length*(length-1)/2) {
				t.Errorf("level %v: the sum of 0 to %d is %v", l, length-1, got)
			}
		}
	}
}

// TestBadArguments: what would make C read or write outside is refused in Go.
func TestBadArguments(t *testing.T) {
	four := make([]float32, 4)
	rows, _ := makeRows(t, 2, 2, 1)
	for name, f := range map[string]func(){
		"merge":         func() { TreeSum(four, [][]float32{four}, []Merge{{0, 1}}) },
		"self":          func() { TreeSum(four, [][]float32{four}, []Merge{{0, 0}}) },
		"short source":  func() { TreeSum(four, [][]float32{four[:3]}, nil) },
		"row":           func() { TreeSumRows(make([]float32, 2), 2, 1, [][]float32{four}, [][]int32{{2}}, nil) },
		"row go":        func() { Go.TreeSumRows(make([]float32, 2), 2, 1, [][]float32{four}, [][]int32{{2}}, nil) },
		"short index":   func() { TreeSumRows(four, 2, 2, [][]float32{four}, [][]int32{{0}}, nil) },
		"short dst":     func() { Gather(four[:1], 2, 2, rows, []uint32{0}) },
		"wide":          func() { Gather(four, 3, 3, rows, []uint32{0}) },
		"near":          func() { Gather(four, 1, 2, rows, []uint32{0, 1}) },
		"short grads":   func() { Update(&Rule{}, 2, rows, []uint32{0, 1}, four[:3]) },
		"no state":      func() { Update(&Rule{Kind: AdaGrad}, 2, rows, []uint32{0}, four) },
		"kind":          func() { Update(&Rule{Kind: 17}, 1, rows, []uint32{0}, four) },
		"missing slabs": func() { Gather(four, 2, 2, &Rows{Bases: rows.Bases, Shift: 1, Stride: 2, Count: 3}, []uint32{0}) },
		"sum":           func() { Sum(four, [][]float32{four, four[:2]}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			f()
		}()
	}
}
