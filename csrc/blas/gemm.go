package blas

import "fmt"

// Matrix is a row-major matrix inside a slice. Stride is the distance between
// rows in floats, at least Cols.
type Matrix struct {
	Data       []float32
	Rows, Cols int
	Stride     int
}

// Dense is a matrix without gaps between its rows.
func Dense(data []float32, rows, cols int) Matrix {
	return Matrix{Data: data, Rows: rows, Cols: cols, Stride: cols}
}

// maxCount bounds rows, columns and strides: BLAS counts in int32.
const maxCount = 1<<31 - 1

// check panics, like an index out of range does, where the matrix reaches
// beyond its slice: C would read or write there.
func (m Matrix) check(which string) {
	switch {
	case m.Rows < 0 || m.Cols < 0 || m.Stride < m.Cols || m.Rows > maxCount || m.Stride > maxCount:
		panic(fmt.Sprintf("blas: matrix %s of %d x %d with stride %d is malformed", which, m.Rows, m.Cols, m.Stride))
	case m.Rows > 0 && m.Cols > 0 && (m.Rows-1)*m.Stride+m.Cols > len(m.Data):
		panic(fmt.Sprintf("blas: matrix %s of %d x %d with stride %d needs %d floats, its slice has %d",
			which, m.Rows, m.Cols, m.Stride, (m.Rows-1)*m.Stride+m.Cols, len(m.Data)))
	}
}

// Gemm computes c = op(a) op(b) + beta c, where op transposes if asked. With
// beta 0 the old values of c are not read, so they may be anything, NaN too.
// c must not overlap a or b.
func Gemm(transA, transB bool, a, b Matrix, beta float32, c Matrix) {
	a.check("a")
	b.check("b")
	c.check("c")
	m, k := a.Rows, a.Cols
	if transA {
		m, k = k, m
	}
	inner, n := b.Rows, b.Cols
	if transB {
		inner, n = n, inner
	}
	if inner != k || c.Rows != m || c.Cols != n {
		panic(fmt.Sprintf("blas: (%d x %d) times (%d x %d) into %d x %d", m, k, inner, n, c.Rows, c.Cols))
	}
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		scale(beta, c)
		return
	}
	gemm(transA, transB, m, n, k, a, b, beta, c)
}

// scale does c = beta c, and clears where beta is 0.
func scale(beta float32, c Matrix) {
	for i := range c.Rows {
		row := c.Data[i*c.Stride : i*c.Stride+c.Cols]
		if beta == 0 {
			clear(row)
			continue
		}
		for j := range row {
			row[j] *= beta
		}
	}
}
