package blas

import (
	"math"
	"slices"
)

// Pieces says how a sum over k products is cut: by Most while twice as many or more are left,
// else in halves, the first a multiple of Round, until Most are left or fewer. Each piece is a
// chain of fused operations in ascending order, and pieces are added.
type Pieces struct{ Most, Round int }

// Whole cuts no sum.
var Whole = Pieces{math.MaxInt32, 1}

// Product is the shape of a Gemm: c of M times N, K products each, beta 1 where it adds.
type Product struct {
	TransA, TransB, Add bool
	M, N, K             int
}

// Chained is how Gemm, on this machine, cuts the sums of such products, so that somebody
// else may make them with its bits; false: it adds in another way. A library's kernels for
// processors with AVX-512 do it so, others keep several sums of one element.
//
// Of a large product some elements are looked at, at the edges and between.
func Chained(all []Product) (Pieces, bool) {
	made := samples(all)
	for _, most := range []int{384, 448, 320, 352, 512, 640, 768, 256, 192, 128, 1024, math.MaxInt32} {
		for _, round := range []int{16, 8, 4, 32, 24} {
			cut := Pieces{most, round}
			if areAll(made, cut) {
				return cut, true
			}
		}
	}
	return Whole, false
}

// AreChained says whether Gemm cuts the sums of such products so.
func AreChained(all []Product, cut Pieces) bool { return areAll(samples(all), cut) }

func areAll(made []sample, cut Pieces) bool {
	return !slices.ContainsFunc(made, func(s sample) bool { return !s.is(cut) })
}

func samples(all []Product) []sample {
	made := make([]sample, len(all))
	for i, p := range all {
		made[i] = sampleOf(p)
	}
	return made
}

// sample is a product that was made.
type sample struct {
	Product
	a, b, before, c []float32
}

func sampleOf(p Product) sample {
	s := sample{p, numbers(p.M * p.K), numbers(p.K * p.N), numbers(p.M * p.N), nil}
	s.c = slices.Clone(s.before)
	a, b, beta := Dense(s.a, p.M, p.K), Dense(s.b, p.K, p.N), float32(0)
	if p.TransA {
		a = Dense(s.a, p.K, p.M)
	}
	if p.TransB {
		b = Dense(s.b, p.N, p.K)
	}
	if p.Add {
		beta = 1
	}
	Gemm(p.TransA, p.TransB, a, b, beta, Dense(s.c, p.M, p.N))
	return s
}

// numbers are n of both signs, whose sums are rounded.
func numbers(n int) []float32 {
	s, x := make([]float32, n), uint32(n)*2654435761+1
	for i := range s {
		x = x*1664525 + 1013904223
		s[i] = float32(int32(x)) / (1 << 31)
	}
	return s
}

func (s *sample) is(cut Pieces) bool {
	aRow, aStep, bStep, bCol := s.K, 1, s.N, 1
	if s.TransA {
		aRow, aStep = 1, s.M
	}
	if s.TransB {
		bStep, bCol = 1, s.K
	}
	for _, i := range some(s.M, 12) {
		for _, j := range some(s.N, 24) {
			at, c := i*s.N+j, float32(0)
			if s.Add {
				c = s.before[at]
			}
			if got := chain(s.a[i*aRow:], aStep, s.b[j*bCol:], bStep, s.K, cut, c); math.Float32bits(got) != math.Float32bits(s.c[at]) {
				return false
			}
		}
	}
	return true
}

// some are up to about most of n numbers: the last eight, in which kernels' edges are, and
// such as lie evenly before them.
func some(n, most int) (at []int) {
	step := max(1, n/max(1, most-8))
	for i := 0; i < n; i++ {
		if i%step == 0 || i >= n-8 {
			at = append(at, i)
		}
	}
	return at
}
