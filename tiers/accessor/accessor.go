package accessor

import (
	"math"

	"psrt/csrc/kernels"
	"psrt/tiers/table"
)

// Accessor is one table's row layout and birth. It does not change after New
// and is safe for concurrent use.
type Accessor struct {
	spec table.Spec
	opt  table.Optimizer
	init table.Init
	rule kernels.Rule
	root uint64
}

// New makes the accessor of a valid description, for a job's seed.
func New(spec table.Spec, seed uint64) (*Accessor, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	opt := spec.Optimizer.WithDefaults()
	return &Accessor{spec: spec, opt: opt, init: spec.Init.WithDefaults(), rule: RuleOf(opt), root: streamRoot(seed, spec.ID)}, nil
}

// Rule is what updates rows of this table.
func (a *Accessor) Rule() *kernels.Rule { return &a.rule }

// RowFloats is the length of a row.
func (a *Accessor) RowFloats() int { return a.spec.RowFloats() }

// Born fills a new row of RowFloats.
func (a *Accessor) Born(key uint64, row []float32) {
	w := row[:a.spec.Dim]
	a.weights(key, w)
	newState(&a.opt, w, row[a.spec.Dim:])
}

var kinds = map[string]kernels.Kind{
	table.SGD: kernels.SGD, table.AdaGrad: kernels.AdaGrad, table.RowAdaGrad: kernels.RowAdaGrad,
	table.Adam: kernels.Adam, table.FTRL: kernels.FTRL,
}

// RuleOf translates a valid optimizer for the kernels.
func RuleOf(o table.Optimizer) kernels.Rule {
	o = o.WithDefaults()
	return kernels.Rule{Kind: kinds[o.Kind], LR: o.LR, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, L1: o.L1, L2: o.L2, Beta: o.Beta}
}

// NewState fills the optimizer state of weights that have had no gradient yet.
func NewState(o table.Optimizer, weights, state []float32) {
	o = o.WithDefaults()
	newState(&o, weights, state)
}

func newState(o *table.Optimizer, weights, state []float32) {
	clear(state)
	dim := len(weights)
	switch o.Kind {
	case table.AdaGrad, table.RowAdaGrad:
		fill(state, o.InitialAccumulator)
	case table.Adam:
		fill(state[2*dim:], 1) // the powers of the betas
	case table.FTRL:
		z, n := state[:dim], state[dim:2*dim]
		fill(n, o.InitialAccumulator)
		// FTRL's weights are a function of z; with z = 0 the first gradient would
		// throw the drawn weights away. This z is the one that gives them.
		root := float32(math.Sqrt(float64(o.InitialAccumulator)))
		slope := float32((o.Beta+root)/o.LR) + o.L2
		for i, w := range weights {
			switch {
			case w > 0:
				z[i] = float32(-w*slope) - o.L1
			case w < 0:
				z[i] = float32(-w*slope) + o.L1
			}
		}
	}
}

func fill(s []float32, v float32) {
	for i := range s {
		s[i] = v
	}
}
