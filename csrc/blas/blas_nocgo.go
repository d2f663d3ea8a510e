//go:build !cgo

package blas

import "math"

func gemm(transA, transB bool, m, n, k int, a, b Matrix, beta float32, c Matrix) {
	plainGemm(transA, transB, m, n, k, a, b, beta, c)
}

// chain is none: the plain loop rounds twice.
func chain([]float32, int, []float32, int, int, Pieces, float32) float32 {
	return float32(math.NaN())
}

// SetThreads has nothing to set: the plain loop uses one thread.
func SetThreads(int) {}

// Threads is 1.
func Threads() int { return 1 }

// Config names the plain loop.
func Config() string { return "plain Go (built without cgo)" }
