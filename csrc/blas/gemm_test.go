package blas

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

func random(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = r.Float32() - 0.5
	}
	return s
}

var shapes = [][3]int{{1, 1, 1}, {3, 5, 7}, {16, 16, 16}, {17, 33, 65}, {512, 256, 112}, {130, 1, 64}, {1, 64, 300}, {100, 130, 0}}

func TestGemmAgreesWithFloat64(t *testing.T) {
	r := seedtest.Fixed(t, 1)
	for _, s := range shapes {
		for form := range 8 {
			transA, transB, beta := form&1 != 0, form&2 != 0, float32(form>>2)*0.5
			m, n, k := s[0], s[1], s[2]
			t.Run(fmt.Sprintf("%dx%dx%d/%v/%v/%v", m, n, k, transA, transB, beta), func(t *testing.T) {
				a, b := operand(r, m, k, transA), operand(r, k, n, transB)
				c := Matrix{Data: random(r, m*(n+3)), Rows: m, Cols: n, Stride: n + 3}
				want := float64Gemm(transA, transB, m, n, k, a, b, beta, c)
				plain := c
				plain.Data = append([]float32(nil), c.Data...)
				before := append([]float32(nil), c.Data...)
				Gemm(transA, transB, a, b, beta, c)
				if k > 0 {
					plainGemm(transA, transB, m, n, k, a, b, beta, plain)
					compare(t, "plain", plain, want, k)
				}
				compare(t, Config(), c, want, k)
				for i := range before {
					if i%c.Stride >= n && before[i] != c.Data[i] {
						t.Fatalf("float %d between the rows of c was written", i)
					}
				}
			})
		}
	}
}

func operand(r *rand.Rand, rows, cols int, trans bool) Matrix {
	if trans {
		rows, cols = cols, rows
	}
	stride := cols + 2
	return Matrix{Data: random(r, rows*stride), Rows: rows, Cols: cols, Stride: stride}
}

func float64Gemm(transA, transB bool, m, n, k int, a, b Matrix, beta float32, c Matrix) []float64 {
	at := func(x Matrix, trans bool, i, j int) float64 {
		if trans {
			i, j = j, i
		}
		return float64(x.Data[i*x.Stride+j])
	}
	want := make([]float64, m*n)
	for i := range m {
		for j := range n {
			sum := float64(beta) * at(c, false, i, j)
			for l := range k {
				sum += at(a, transA, i, l) * at(b, transB, l, j)
			}
			want[i*n+j] = sum
		}
	}
	return want
}

func compare(t *testing.T, who string, got Matrix, want []float64, k int) {
	t.Helper()
	limit := 1e-7 * float64(k+4)
	for i := range got.Rows {
		for j := range got.Cols {
			if d := math.Abs(float64(got.Data[i*got.Stride+j]) - want[i*got.Cols+j]); !(d <= limit) {
				t.Fatalf("%s: element (%d,%d) is off by %g, limit %g", who, i, j, d, limit)
			}
		}
	}
}

// The promise that models rely on: bits depend on values, not on addresses.
func TestGemmIgnoresAlignment(t *testing.T) {
	r := seedtest.Fixed(t, 1)
	const m, n, k = 96, 40, 112
	a, b := random(r, m*k), random(r, k*n)
	for form := range 4 {
		transA, transB := form&1 != 0, form&2 != 0
		var first []float32
		for offset := range 16 {
			place := func(values []float32, shift int) []float32 {
				return append(make([]float32, shift, shift+len(values)), values...)[shift:]
			}
			x, y := Dense(place(a, offset), m, k), Dense(place(b, offset*7%16), k, n)
			if transA {
				x.Rows, x.Cols, x.Stride = k, m, m
			}
			if transB {
				y.Rows, y.Cols, y.Stride = n, k, k
			}
			c := Dense(place(make([]float32, m*n), offset*3%16), m, n)
			Gemm(transA, transB, x, y, 0, c)
			if first == nil {
				first = c.Data
			}
			for i := range first {
				if math.Float32bits(first[i]) != math.Float32bits(c.Data[i]) {
					t.Fatalf("offset %d changes element %d: %x, %x", offset, i, first[i], c.Data[i])
				}
			}
		}
	}
}

// Workers call at the same time, each from its own thread, and OpenBLAS shares
// its buffers among them.
func TestGemmIsTheSameFromManyThreads(t *testing.T) {
	if n := Threads(); n != 1 {
		t.Fatalf("OpenBLAS uses %d threads a call, want 1", n)
	}
	r := seedtest.Fixed(t, 1)
	const m, n, k = 64, 48, 100
	a, b := Dense(random(r, m*k), m, k), Dense(random(r, k*n), k, n)
	want := Dense(make([]float32, m*n), m, n)
	Gemm(false, false, a, b, 0, want)
	results := make(chan []float32)
	const workers = 8
	for range workers {
		go func() {
			c := Dense(make([]float32, m*n), m, n)
			for range 50 {
				Gemm(false, false, a, b, 0, c)
			}
			results <- c.Data
		}()
	}
	for range workers {
		if got := <-results; !slices.Equal(got, want.Data) {
			t.Error("a thread got other bits")
		}
	}
}

func TestGemmWithBetaZeroIgnoresOldValues(t *testing.T) {
	nan := float32(math.NaN())
	c := []float32{nan, nan}
	Gemm(false, false, Dense([]float32{1, 2}, 1, 2), Dense([]float32{1, 2, 3, 4}, 2, 2), 0, Dense(c, 1, 2))
	if c[0] != 7 || c[1] != 10 {
		t.Fatalf("got %v, want [7 10]", c)
	}
}

func TestGemmRefusesMatricesBeyondTheirSlices(t *testing.T) {
	ok := Dense(make([]float32, 4), 2, 2)
	short := Dense(make([]float32, 3), 2, 2)
	for name, call := range map[string]func(){
		"short a":     func() { Gemm(false, false, short, ok, 0, ok) },
		"short b":     func() { Gemm(false, false, ok, short, 0, ok) },
		"short c":     func() { Gemm(false, false, ok, ok, 0, short) },
		"small inner": func() { Gemm(false, false, ok, Dense(ok.Data, 1, 4), 0, ok) },
		"bad stride":  func() { Gemm(false, false, Matrix{ok.Data, 2, 2, 1}, ok, 0, ok) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.HasPrefix(said, "blas: ") {
					t.Fatalf("recovered %q, want a panic of blas", said)
				}
			}()
			call()
		})
	}
}

func TestGemmAllocatesNothing(t *testing.T) {
	a, b, c := Dense(make([]float32, 64), 8, 8), Dense(make([]float32, 64), 8, 8), Dense(make([]float32, 64), 8, 8)
	if n := testing.AllocsPerRun(100, func() { Gemm(false, false, a, b, 0, c) }); n != 0 {
		t.Fatalf("%v allocations a call", n)
	}
}

func BenchmarkGemm512x256x256(b *testing.B) {
	x, w, y := Dense(make([]float32, 512*256), 512, 256), Dense(make([]float32, 256*256), 256, 256), Dense(make([]float32, 512*256), 512, 256)
	b.Log(Config())
	for b.Loop() {
		Gemm(false, false, x, w, 0, y)
	}
	b.ReportMetric(2*512*256*256*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
}
