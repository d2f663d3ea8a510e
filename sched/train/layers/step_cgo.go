//go:build cgo

package layers

import (
	"slices"

	"psrt/csrc/ptx"
	"psrt/rdma/mem"
	"psrt/sched/train/model"
)

// pass is the kernels of one leaf, given to the stream in the order of StepDense. After the
// first that is refused nothing more is given.
type pass struct {
	d             *Device
	in            *model.DenseLeaf
	n             int
	labels, z, x0 uint64
	preds, g, dx0 uint64
	err           error
}

// leaf copies a leaf in, computes it, and copies its results to the stage.
func (d *Device) leaf(s *stage, in *model.DenseLeaf) error {
	n, shape := len(in.Z), &d.shape
	copy(s.in, in.Labels)
	bias := d.values[shape.bias]
	for i, z := range in.Z {
		s.in[n+i] = bias + z
	}
	copy(s.in[2*n:], in.X0)
	results := float(d.at.grads, shape.total)
	p := &pass{d: d, in: in, n: n, labels: d.at.in, z: float(d.at.in, n), x0: float(d.at.in, 2*n),
		preds: results, g: float(results, n), dx0: float(results, 2*n)}
	p.err = d.stream.ToDevice(d.at.in, mem.Bytes(s.in[:n*shape.between()]))
	p.forward()
	loss := p.layer(n, p.z, p.labels, p.g, p.preds)
	loss.Scale, loss.Square = in.Scale, shape.spec.Task == model.Regression
	p.run(ptx.Loss, loss.Columns(), loss)
	p.deepBack()
	p.crossBack()
	if p.err != nil {
		return p.err
	}
	return d.stream.ToHost(mem.Bytes(s.out[:shape.total+n*shape.between()]), d.at.grads)
}

func (p *pass) value(at int) uint64 { return float(p.d.at.values, at) }
func (p *pass) grad(at int) uint64  { return float(p.d.at.grads, at) }

// layer is an argument for this leaf's examples.
func (p *pass) layer(units int, at ...uint64) *ptx.Layer {
	x := &ptx.Layer{N: p.n, Units: units, Keep: 1}
	copy(x.At[:], at)
	return x
}

func (p *pass) give(kernel string, rows int) {
	if p.err == nil {
		p.err = p.d.stream.Run(slices.Index(ptx.Kernels[:], kernel), rows, p.d.bytes)
	}
}

func (p *pass) run(kernel string, rows int, x *ptx.Layer) {
	p.d.bytes = x.Append(p.d.bytes[:0])
	p.give(kernel, rows)
}

func (p *pass) rows(kernel string, x *ptx.Layer)    { p.run(kernel, x.N, x) }
func (p *pass) columns(kernel string, x *ptx.Layer) { p.run(kernel, x.Columns(), x) }

func (p *pass) product(x ptx.Matrices) {
	x.Most, x.Round = p.d.cut.Most, p.d.cut.Round
	p.d.bytes = x.Append(p.d.bytes[:0])
	p.give(ptx.DenseProduct, x.Tiles())
}

// masked has a kernel do a layer's dropout.
func (p *pass) masked(x *ptx.Layer, layer int) *ptx.Layer {
	mask := p.d.shape.mask(p.in, layer)
	x.Key, x.FirstRow = mask.Key, mask.FirstRow
	x.Drop, x.Keep = mask.Words()
	return x
}

// forward adds all parts to the logits.
func (p *pass) forward() {
	s, at, n := &p.d.shape, &p.d.at, p.n
	x := p.x0
	for i, l := range s.deep {
		a, to, gamma, beta := at.a[i], at.a[i], uint64(0), p.value(l.bias)
		if s.spec.BatchNorm {
			to, gamma, beta = at.normal[i], p.value(l.gamma), p.value(l.beta)
		}
		p.product(ptx.Matrices{A: x, B: p.value(l.weight), C: to, M: n, N: l.out, K: l.in})
		if s.spec.BatchNorm {
			norm := p.layer(l.out, to, p.grad(l.mean), p.grad(l.variance), at.inverse[i])
			norm.Scale = float32(n) * p.in.Scale
			p.columns(ptx.Normalize, norm)
		}
		p.rows(ptx.Activate, p.masked(p.layer(l.out, a, gamma, beta, to), i))
		x = a
	}
	p.rows(ptx.Output, p.layer(s.deep[len(s.deep)-1].out, x, p.value(s.out), p.z))
	x = p.x0
	for i, l := range s.cross {
		p.product(ptx.Matrices{A: x, B: p.value(l.weight), C: at.u[i], M: n, N: s.input, K: s.input})
		p.rows(ptx.Cross, p.layer(s.input, p.x0, x, p.value(l.bias), at.u[i], at.cross[i]))
		x = at.cross[i]
	}
	if len(s.cross) > 0 {
		p.rows(ptx.Output, p.layer(s.input, x, p.value(s.tail), p.z))
	}
}

// deepBack goes down the layers to the activations.
func (p *pass) deepBack() {
	s, at, n := &p.d.shape, &p.d.at, p.n
	d, other := at.d, at.other
	last := len(s.deep) - 1
	p.columns(ptx.OutputBack, p.layer(s.deep[last].out, at.a[last], p.value(s.out), p.g, d, p.grad(s.out)))
	for i := last; i >= 0; i-- {
		l := s.deep[i]
		db := p.grad(l.bias)
		if s.spec.BatchNorm {
			db = p.grad(l.beta)
		}
		p.columns(ptx.ActivateBack, p.masked(p.layer(l.out, at.a[i], d, db), i))
		if s.spec.BatchNorm {
			p.columns(ptx.NormalizeBack, p.layer(l.out, at.normal[i], p.value(l.gamma), at.inverse[i], d, p.grad(l.gamma), db))
		}
		x, dx := p.x0, p.dx0
		if i > 0 {
			x, dx = at.a[i-1], other
		}
		p.product(ptx.Matrices{A: x, B: d, C: p.grad(l.weight), M: l.in, N: l.out, K: n, TransA: true})
		p.product(ptx.Matrices{A: d, B: p.value(l.weight), C: dx, M: n, N: l.in, K: l.out, TransB: true})
		d, other = other, d
	}
}

// crossBack adds the cross network's part to the activations' gradient.
func (p *pass) crossBack() {
	s, at, n := &p.d.shape, &p.d.at, p.n
	if len(s.cross) == 0 {
		return
	}
	d, du := at.d, at.other
	last := len(s.cross) - 1
	p.columns(ptx.OutputBack, p.layer(s.input, at.cross[last], p.value(s.tail), p.g, d, p.grad(s.tail)))
	for i := last; i >= 0; i-- {
		l, x := s.cross[i], p.x0
		if i > 0 {
			x = at.cross[i-1]
		}
		p.columns(ptx.CrossBack, p.layer(s.input, p.x0, at.u[i], d, du, p.dx0, p.grad(l.bias)))
		p.product(ptx.Matrices{A: x, B: du, C: p.grad(l.weight), M: s.input, N: s.input, K: n, TransA: true})
		// x reaches out twice: through the matrix, and as it is (d stays).
		p.product(ptx.Matrices{A: du, B: p.value(l.weight), C: d, M: n, N: s.input, K: s.input, TransB: true, Add: true})
	}
	p.rows(ptx.AddRows, p.layer(s.input, p.dx0, d))
}
