package kernels

import "fmt"

// Merge is one step of a sum: source Dst becomes Dst + Src.
type Merge struct{ Dst, Src int32 }

// TreeSumRows adds rows of several matrices. For each row u < rows, source i is
// row idx[i][u] of the matrix srcs[i], or absent where that is negative. The
// merges are applied in order, x[Dst] = x[Dst] + x[Src], where absent + y is y
// and x + absent is x; the row of dst is then x[0], zeros when that is absent.
// Preconditions: dst overlaps no source.
func TreeSumRows(dst []float32, dim, rows int, srcs [][]float32, idx [][]int32, merges []Merge) {
	Best().TreeSumRows(dst, dim, rows, srcs, idx, merges)
}

// TreeSumRows is the package's TreeSumRows at this level.
func (l Level) TreeSumRows(dst []float32, dim, rows int, srcs [][]float32, idx [][]int32, merges []Merge) {
	if rows == 0 {
		return
	}
	checkMerges(len(srcs), merges)
	if dim < 1 || rows < 0 || len(dst) < rows*dim || len(idx) != len(srcs) {
		panic(fmt.Sprintf("kernels: sum of %d rows of %d floats into %d floats, with %d sources and %d indexes", rows, dim, len(dst), len(srcs), len(idx)))
	}
	for i := range idx {
		if len(idx[i]) < rows {
			panic(fmt.Sprintf("kernels: source %d has an index of %d rows, want %d", i, len(idx[i]), rows))
		}
	}
	bad := -1
	if l == Go || len(srcs) == 0 {
		bad = plainSumRows(dst, dim, rows, srcs, idx, merges)
	} else {
		bad = l.treeSumRows(dst, dim, rows, srcs, idx, merges)
	}
	if bad >= 0 {
		panic(fmt.Sprintf("kernels: source %d is indexed beyond its %d rows", bad, len(srcs[bad])/dim))
	}
}

// TreeSum is TreeSumRows for whole vectors: every source that is not nil is
// one row as long as dst.
func TreeSum(dst []float32, srcs [][]float32, merges []Merge) { Best().TreeSum(dst, srcs, merges) }

// TreeSum is the package's TreeSum at this level.
func (l Level) TreeSum(dst []float32, srcs [][]float32, merges []Merge) {
	checkMerges(len(srcs), merges)
	for i, s := range srcs {
		if s != nil && len(s) < len(dst) {
			panic(fmt.Sprintf("kernels: source %d has %d floats, want %d", i, len(s), len(dst)))
		}
	}
	if len(dst) == 0 {
		return
	}
	if l == Go || len(srcs) == 0 {
		plainSum(dst, srcs, merges)
		return
	}
	l.treeSum(dst, srcs, merges)
}

// Sum writes the sum of the sources, added first to last, into dst, which may
// be the first of them.
func Sum(dst []float32, srcs [][]float32) { Best().Sum(dst, srcs) }

// Sum is the package's Sum at this level.
func (l Level) Sum(dst []float32, srcs [][]float32) {
	for i, s := range srcs {
		if len(s) < len(dst) {
			panic(fmt.Sprintf("kernels: source %d has %d floats, want %d", i, len(s), len(dst)))
		}
	}
	if len(srcs) == 0 || len(dst) == 0 {
		clear(dst)
		return
	}
	if l == Go {
		plainAdd(dst, srcs)
		return
	}
	l.sum(dst, srcs)
}

// Scan reads src as fast as it can be read: the limit that benchmarks hold Sum
// against. It returns the sum, in an order that depends on the level.
func Scan(src []float32) float32 { return Best().Scan(src) }

// Scan is the package's Scan at this level.
func (l Level) Scan(src []float32) float32 {
	if l == Go || len(src) == 0 {
		return plainScan(src)
	}
	return l.scan(src)
}

func checkMerges(n int, merges []Merge) {
	for _, m := range merges {
		if m.Dst < 0 || m.Src < 0 || int(m.Dst) >= n || int(m.Src) >= n || m.Dst == m.Src {
			panic(fmt.Sprintf("kernels: merge of %d into %d, with %d sources", m.Src, m.Dst, n))
		}
	}
}
