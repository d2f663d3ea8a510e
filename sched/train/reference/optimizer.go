package reference

import (
	"fmt"
	"math"

	"psrt/tiers/table"
)

// state is what an optimizer remembers of one row or one dense tensor.
type state struct {
	a, b []float64 // adam: m, v; ftrl: z, n; adagrad: a; rowadagrad: a[0]
	step int
}

// optimizer is one update rule in float64.
type optimizer struct{ table.Optimizer }

func newOptimizer(o table.Optimizer) (optimizer, error) {
	if err := o.Validate(); err != nil {
		return optimizer{}, fmt.Errorf("reference: %w", err)
	}
	return optimizer{o.WithDefaults()}, nil
}

func (o optimizer) start(dim int) *state {
	s := &state{a: make([]float64, dim), b: make([]float64, dim)}
	initial := s.a
	if o.Kind == table.FTRL {
		initial = s.b
	}
	if o.Kind != table.Adam {
		for i := range initial {
			initial[i] = float64(o.InitialAccumulator)
		}
	}
	return s
}

// update moves w by the gradient g. Adam is lazy: a row counts its own steps.
func (o optimizer) update(s *state, w, g []float64) {
	lr, eps, l1, l2 := float64(o.LR), float64(o.Eps), float64(o.L1), float64(o.L2)
	s.step++
	if o.Kind == table.RowAdaGrad {
		for i := range w {
			d := g[i] + l2*w[i]
			s.a[0] += d * d / float64(len(w))
		}
	}
	for i := range w {
		d := g[i] + l2*w[i]
		switch o.Kind {
		case table.SGD:
			w[i] -= lr * d
		case table.AdaGrad:
			s.a[i] += d * d
			w[i] -= lr * d / (math.Sqrt(s.a[i]) + eps)
		case table.RowAdaGrad:
			w[i] -= lr * d / (math.Sqrt(s.a[0]) + eps)
		case table.Adam:
			beta1, beta2 := float64(o.Beta1), float64(o.Beta2)
			s.a[i] = beta1*s.a[i] + (1-beta1)*d
			s.b[i] = beta2*s.b[i] + (1-beta2)*d*d
			m := s.a[i] / (1 - math.Pow(beta1, float64(s.step)))
			v := s.b[i] / (1 - math.Pow(beta2, float64(s.step)))
			w[i] -= lr * m / (math.Sqrt(v) + eps)
		case table.FTRL:
			before := math.Sqrt(s.b[i])
			s.b[i] += g[i] * g[i]
			root := math.Sqrt(s.b[i])
			s.a[i] += g[i] - (root-before)/lr*w[i]
			w[i] = 0
			if math.Abs(s.a[i]) > l1 {
				w[i] = (math.Copysign(l1, s.a[i]) - s.a[i]) / ((float64(o.Beta)+root)/lr + l2)
			}
		}
	}
}
