package blas

// plainGemm is the pure Go form of gemm: the whole package without cgo, and
// the second opinion in tests. Every element of c is one sum over k in
// ascending order, whatever the blocking.
//
// Preconditions: as checked by Gemm; m, n and k are above 0.
func plainGemm(transA, transB bool, m, n, k int, a, b Matrix, beta float32, c Matrix) {
	scale(beta, c)
	if transB {
		plainDots(transA, m, n, k, a, b, c)
		return
	}
	aRow, aStep := a.Stride, 1
	if transA {
		aRow, aStep = 1, a.Stride
	}
	// kBlock rows of b stay in the second-level cache over all rows of c.
	const kBlock = 64
	for first := 0; first < k; first += kBlock {
		last := min(first+kBlock, k)
		for i := range m {
			row := c.Data[i*c.Stride : i*c.Stride+n]
			for l := first; l < last; l++ {
				x := a.Data[i*aRow+l*aStep]
				for j, y := range b.Data[l*b.Stride : l*b.Stride+n] {
					row[j] += float32(x * y) // rounded: never fused, on any CPU
				}
			}
		}
	}
}

// plainDots is the form with b transposed: rows of b are dotted with op(a)'s.
func plainDots(transA bool, m, n, k int, a, b, c Matrix) {
	var column []float32
	if transA {
		column = make([]float32, k)
	}
	for i := range m {
		row := column
		for l := range column {
			column[l] = a.Data[l*a.Stride+i]
		}
		if !transA {
			row = a.Data[i*a.Stride : i*a.Stride+k]
		}
		for j := range n {
			sum := c.Data[i*c.Stride+j]
			for l, y := range b.Data[j*b.Stride : j*b.Stride+k] {
				sum += float32(row[l] * y)
			}
			c.Data[i*c.Stride+j] = sum
		}
	}
}
