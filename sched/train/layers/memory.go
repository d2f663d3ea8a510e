package layers

import (
	"fmt"

	"psrt/csrc/blas"
	"psrt/csrc/nn"
	"psrt/sched/train/model"
)

// shape is a model as kernels see it: where its tensors lie among the dense parameters, in
// floats.
type shape struct {
	spec  model.Spec
	input int
	total int
	bias  int
	deep  []deepLayer
	out   int
	cross []crossLayer
	tail  int
}

type deepLayer struct {
	in, out, weight, bias       int
	gamma, beta, mean, variance int // of batch norm
}

type crossLayer struct{ weight, bias int }

func shapeOf(m *model.Model) shape {
	at := map[string]int{}
	for _, t := range m.Layout().Tensors {
		at[t.Name] = t.Offset
	}
	s := shape{spec: m.Spec(), input: m.Input(), total: m.Layout().Total, bias: at["bias"], out: at["out.deep"], tail: at["out.cross"]}
	in := s.input
	for i, units := range s.spec.Hidden {
		part := func(what string) int { return at[fmt.Sprintf("deep.%d.%s", i, what)] }
		s.deep = append(s.deep, deepLayer{in, units, part("weight"), part("bias"), part("norm.gamma"), part("norm.beta"), part("norm.mean"), part("norm.var")})
		in = units
	}
	if s.spec.Kind == model.DCN {
		for i := range s.spec.CrossLayers {
			s.cross = append(s.cross, crossLayer{at[fmt.Sprintf("cross.%d.weight", i)], at[fmt.Sprintf("cross.%d.bias", i)]})
		}
	}
	return s
}

// between is the floats of an example that come and go with a leaf.
func (s *shape) between() int { return 2 + s.input }

func (s *shape) widest() int {
	n := s.input
	for _, l := range s.deep {
		n = max(n, l.out)
	}
	return n
}

// mask numbers one layer's dropout in a leaf.
func (s *shape) mask(in *model.DenseLeaf, layer int) nn.Mask {
	return nn.Mask{Rate: s.spec.Dropout, FirstRow: in.FirstRow, Key: nn.MaskKey(s.spec.Seed, uint64(in.Epoch), uint64(layer))}
}

// products are those of a leaf of n examples.
func (s *shape) products(n int) (all []blas.Product) {
	layer := func(in, out int, add bool) {
		all = append(all, blas.Product{M: n, N: out, K: in}, blas.Product{TransA: true, M: in, N: out, K: n}, blas.Product{TransB: true, Add: add, M: n, N: in, K: out})
	}
	for _, l := range s.deep {
		layer(l.in, l.out, false)
	}
	if len(s.cross) > 0 {
		layer(s.input, s.input, true)
	}
	return all
}

// memory is where things lie on a device, in bytes from its begin.
type memory struct {
	values             uint64 // the dense parameters
	in                 uint64 // labels, logits, activations
	grads              uint64 // of the parameters; behind them predictions, gradients of logits and of activations
	a, normal, inverse []uint64
	u, cross           []uint64
	d, other           uint64
	bytes              int
}

// memoryOf is for leaves of up to n examples.
func memoryOf(s *shape, n int) (m memory) {
	take := func(floats int) (at uint64) {
		at = uint64(m.bytes)
		m.bytes += (4*floats + 255) &^ 255
		return at
	}
	m.values, m.in, m.grads = take(s.total), take(n*s.between()), take(s.total+n*s.between())
	for _, l := range s.deep {
		m.a = append(m.a, take(n*l.out))
		if s.spec.BatchNorm {
			m.normal, m.inverse = append(m.normal, take(n*l.out)), append(m.inverse, take(l.out))
		}
	}
	for range s.cross {
		m.u, m.cross = append(m.u, take(n*s.input)), append(m.cross, take(n*s.input))
	}
	m.d, m.other = take(n*s.widest()), take(n*s.widest())
	return m
}

// move has all begin at an address.
func (m *memory) move(to uint64) {
	for _, at := range []*uint64{&m.values, &m.in, &m.grads, &m.d, &m.other} {
		*at += to
	}
	for _, all := range [][]uint64{m.a, m.normal, m.inverse, m.u, m.cross} {
		for i := range all {
			all[i] += to
		}
	}
}

func float(at uint64, n int) uint64 { return at + 4*uint64(n) }
