package model

import (
	"math"

	"psrt/csrc/blas"
	"psrt/csrc/nn"
)

// deepForward runs the MLP over the first n rows of x0.
func (s *Scratch) deepForward(in *DenseLeaf, n int, stats []float32, training bool) {
	x := in.X0
	for i, p := range s.model.parts.deep {
		l := &s.layers[i]
		a := l.a[:n*p.out]
		target := a
		if s.model.spec.BatchNorm && training {
			target = l.normalized[:n*p.out]
		}
		blas.Gemm(false, false, blas.Dense(x, n, p.in), blas.Dense(p.weight.of(in.Dense), p.in, p.out), 0, blas.Dense(target, n, p.out))
		var mask nn.Mask
		if training {
			mask = s.mask(in, i)
		}
		switch {
		case !s.model.spec.BatchNorm:
			s.level.Activate(n, a, nil, p.bias.of(in.Dense), mask)
		case training:
			s.normalize(in, l, p, n, stats)
			copy(a, target)
			s.level.Activate(n, a, p.gamma.of(in.Dense), p.beta.of(in.Dense), mask)
		default:
			scale, shift := s.running(in, p)
			s.level.Activate(n, a, scale, shift, mask)
		}
		x = a
	}
}

// mask numbers one layer's dropout in this leaf.
func (s *Scratch) mask(in *DenseLeaf, layer int) nn.Mask {
	return nn.Mask{Rate: s.model.spec.Dropout, FirstRow: in.FirstRow,
		Key: nn.MaskKey(s.model.spec.Seed, uint64(in.Epoch), uint64(layer))}
}

// normalize does batch norm over the leaf and hands its statistics out,
// weighted by the leaf's share of the global batch.
func (s *Scratch) normalize(in *DenseLeaf, l *layerScratch, p deepPart, n int, stats []float32) {
	mean, variance := p.mean.of(stats), p.variance.of(stats)
	s.level.Normalize(n, l.normalized[:n*p.out], mean, variance, l.inverse)
	share := float32(n) * in.Scale
	for j := range mean {
		mean[j] *= share
		variance[j] *= share
	}
}

// running folds gamma, beta and the running statistics into one scale and shift.
func (s *Scratch) running(in *DenseLeaf, p deepPart) (scale, shift []float32) {
	scale, shift = s.affine[:p.out], s.affine[p.out:2*p.out]
	gamma, beta := p.gamma.of(in.Dense), p.beta.of(in.Dense)
	mean, variance := p.mean.of(in.Dense), p.variance.of(in.Dense)
	for j := range scale {
		scale[j] = gamma[j] / float32(math.Sqrt(float64(max(variance[j], 0)+nn.NormEps)))
		shift[j] = beta[j] - float32(mean[j]*scale[j])
	}
	return scale, shift
}

// deepBackward writes dx0 and the MLP's part of the dense gradients.
func (s *Scratch) deepBackward(in *DenseLeaf, g, dx0, dense []float32) {
	m, n := s.model, len(g)
	last := len(s.layers) - 1
	d, other := s.d, s.other
	s.level.OutputBack(s.layers[last].a[:n*m.lastUnits()], m.parts.out.of(in.Dense), g, d[:n*m.lastUnits()], m.parts.out.of(dense))
	for i := last; i >= 0; i-- {
		p, l := m.parts.deep[i], &s.layers[i]
		dz := d[:n*p.out]
		if m.spec.BatchNorm {
			dbeta := p.beta.of(dense)
			s.level.ActivateBack(n, l.a[:n*p.out], dz, dbeta, s.mask(in, i))
			s.level.NormalizeBack(n, l.normalized[:n*p.out], p.gamma.of(in.Dense), l.inverse, dz, p.gamma.of(dense), dbeta)
		} else {
			s.level.ActivateBack(n, l.a[:n*p.out], dz, p.bias.of(dense), s.mask(in, i))
		}
		x, dx := in.X0, dx0
		if i > 0 {
			x, dx = s.layers[i-1].a, other[:n*p.in]
		}
		blas.Gemm(true, false, blas.Dense(x[:n*p.in], n, p.in), blas.Dense(dz, n, p.out), 0, blas.Dense(p.weight.of(dense), p.in, p.out))
		blas.Gemm(false, true, blas.Dense(dz, n, p.out), blas.Dense(p.weight.of(in.Dense), p.in, p.out), 0, blas.Dense(dx, n, p.in))
		d, other = other, d
	}
}
