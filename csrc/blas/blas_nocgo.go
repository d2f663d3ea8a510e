//go:build !cgo

package blas

func gemm(transA, transB bool, m, n, k int, a, b Matrix, beta float32, c Matrix) {
	plainGemm(transA, transB, m, n, k, a, b, beta, c)
}

// SetThreads has nothing to set: the plain loop uses one thread.
func SetThreads(int) {}

// Threads is 1.
func Threads() int { return 1 }

// Config names the plain loop.
func Config() string { return "plain Go (built without cgo)" }
