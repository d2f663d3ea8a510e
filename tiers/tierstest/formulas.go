package tierstest

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"psrt/csrc/kernels"
	"psrt/tiers/table"
)

// formulas applies a rule to a row as it is written in the literature.
func formulas(r *kernels.Rule, row []float64, grad []float32) {
	dim := len(grad)
	w, s := row[:dim], row[dim:]
	lr, eps, meanSquare := float64(r.LR), float64(r.Eps), 0.0
	g := make([]float64, dim)
	for i := range g {
		g[i] = float64(grad[i])
		if r.Kind != kernels.FTRL {
			g[i] += float64(r.L2) * w[i]
		}
		meanSquare += g[i] * g[i] / float64(dim)
	}
	switch r.Kind {
	case kernels.RowAdaGrad:
		s[0] += meanSquare
	case kernels.Adam:
		s[2*dim] *= float64(r.Beta1)
		s[2*dim+1] *= float64(r.Beta2)
	}
	for i := range w {
		switch r.Kind {
		case kernels.SGD:
			w[i] -= lr * g[i]
		case kernels.Accumulate:
			w[i] += g[i]
		case kernels.Assign:
			w[i] = g[i]
		case kernels.AdaGrad:
			s[i] += g[i] * g[i]
			w[i] -= lr * g[i] / (math.Sqrt(s[i]) + eps)
		case kernels.RowAdaGrad:
			w[i] -= lr * g[i] / (math.Sqrt(s[0]) + eps)
		case kernels.Adam:
			m, v := &s[i], &s[dim+i]
			*m = float64(r.Beta1)**m + (1-float64(r.Beta1))*g[i]
			*v = float64(r.Beta2)**v + (1-float64(r.Beta2))*g[i]*g[i]
			w[i] -= lr * (*m / (1 - s[2*dim])) / (math.Sqrt(*v/(1-s[2*dim+1])) + eps)
		case kernels.FTRL:
			z, n := &s[i], &s[dim+i]
			root := math.Sqrt(*n + g[i]*g[i])
			*z += g[i] - (root-math.Sqrt(*n))/lr*w[i]
			*n += g[i] * g[i]
			w[i] = 0
			if math.Abs(*z) > float64(r.L1) {
				w[i] = (math.Copysign(float64(r.L1), *z) - *z) / ((float64(r.Beta)+root)/lr + float64(r.L2))
			}
		}
	}
}

// hashRow is one row's part of the digest.
func hashRow(id uint32, key uint64, row []float32) table.Digest {
	b := binary.LittleEndian.AppendUint32(nil, id)
	b = binary.LittleEndian.AppendUint64(b, key)
	for _, x := range row {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return sha256.Sum256(b)
}
