package model

import "psrt/csrc/blas"

// crossForward runs the cross network over the first n rows of x0.
func (s *Scratch) crossForward(in *DenseLeaf, n int) {
	units := s.model.input()
	x0 := in.X0
	x := x0
	for i, p := range s.model.parts.cross {
		u, out := s.cross[i].u[:n*units], s.cross[i].out[:n*units]
		blas.Gemm(false, false, blas.Dense(x, n, units), blas.Dense(p.weight.of(in.Dense), units, units), 0, blas.Dense(u, n, units))
		s.level.Cross(n, x0, x, p.bias.of(in.Dense), u, out)
		x = out
	}
}

// crossBackward adds to dx0 and writes the cross network's dense gradients.
func (s *Scratch) crossBackward(in *DenseLeaf, g, dx0, dense []float32) {
	m, n := s.model, len(g)
	units := m.input()
	x0 := in.X0
	d, du := s.d[:n*units], s.other[:n*units]
	last := len(s.cross) - 1
	s.level.OutputBack(s.cross[last].out[:n*units], m.parts.tail.of(in.Dense), g, d, m.parts.tail.of(dense))
	for i := last; i >= 0; i-- {
		p := m.parts.cross[i]
		x := x0
		if i > 0 {
			x = s.cross[i-1].out[:n*units]
		}
		s.level.CrossBack(n, x0, s.cross[i].u[:n*units], d, du, dx0, p.bias.of(dense))
		blas.Gemm(true, false, blas.Dense(x, n, units), blas.Dense(du, n, units), 0, blas.Dense(p.weight.of(dense), units, units))
		// x reaches out twice: through the matrix, and as it is (d stays).
		blas.Gemm(false, true, blas.Dense(du, n, units), blas.Dense(p.weight.of(in.Dense), units, units), 1, blas.Dense(d, n, units))
	}
	for j, v := range d { // the first layer's x is x0
		dx0[j] += v
	}
}
