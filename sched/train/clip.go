package train

import (
	"fmt"
	"math"

	"psrt/sched/train/model"
)

// Clip bounds the gradients of a micro-batch, as its mean over its own examples: what
// the step's mean is made of, which so is bounded, too. Micro-batches do not depend on
// how many workers there are, and neither does what is clipped. The zero value does
// nothing. Where both are given the values come first.
//
// Running averages are not gradients, and what is not finite stays so: it is refused
// where it is applied, with the name of its table and worker.
type Clip struct {
	Norm  float64 `json:"norm,omitempty"`  // of all gradients of a micro-batch, dense ones and rows'
	Value float64 `json:"value,omitempty"` // of each
}

func (c Clip) validate() error {
	for _, x := range []struct {
		flag string
		v    float64
	}{{"norm", c.Norm}, {"value", c.Value}} {
		if !(x.v >= 0) || math.IsInf(x.v, 0) {
			return fmt.Errorf("train: --clip-%s %g, want a number above 0, or 0 for no bound", x.flag, x.v)
		}
	}
	return nil
}

// apply clips a leaf of n of a step's rows; averages marks its dense values that are none
// of its gradients.
func (c Clip) apply(g *model.LeafGrad, n, rows int, averages []bool) {
	if c == (Clip{}) || n == 0 {
		return
	}
	share := float64(n) / float64(rows) // g is its part of the step's mean
	if c.Value > 0 {
		most := float32(c.Value * share)
		clipValues(g.Rows, nil, most)
		clipValues(g.Dense, averages, most)
	}
	if c.Norm == 0 {
		return
	}
	norm := math.Sqrt(squares(g.Rows, nil) + squares(g.Dense, averages))
	most := c.Norm * share
	if !(norm > most) || math.IsInf(norm, 0) {
		return
	}
	factor := float32(most / norm)
	scale(g.Rows, nil, factor)
	scale(g.Dense, averages, factor)
}

func clipValues(v []float32, but []bool, most float32) {
	for i, x := range v {
		if but != nil && but[i] || math.IsInf(float64(x), 0) {
			continue
		}
		v[i] = max(-most, min(most, x)) // of NaN it is NaN
	}
}

func squares(v []float32, but []bool) (sum float64) {
	for i, x := range v {
		if but == nil || !but[i] {
			sum += float64(x) * float64(x)
		}
	}
	return sum
}

func scale(v []float32, but []bool, factor float32) {
	for i := range v {
		if but == nil || !but[i] {
			v[i] *= factor
		}
	}
}

// averagesOf marks the dense values that are running averages; nil: there are none.
func averagesOf(m *model.Model) (marks []bool) {
	for _, t := range m.Layout().Tensors {
		if t.Rule != model.RuleEMA {
			continue
		}
		if marks == nil {
			marks = make([]bool, m.Layout().Total)
		}
		for i := range t.Len() {
			marks[t.Offset+i] = true
		}
	}
	return marks
}
