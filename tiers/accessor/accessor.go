package accessor

import (
	"math"

	"psrt/csrc/kernels"
	"psrt/csrc/rule"
	"psrt/tiers/table"
)

// Accessor is one table's row layout, birth and rule. It does not change after
// New and is safe for concurrent use, but for a user's rule: there it belongs to
// one goroutine.
type Accessor struct {
	spec table.Spec
	opt  table.Optimizer
	init table.Init
	rule kernels.Rule
	root uint64
	user *rule.Rule // nil for built-in rules
}

// New makes the accessor of a valid description, for a job's seed.
func New(spec table.Spec, seed uint64) (*Accessor, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	opt := spec.Optimizer.WithDefaults()
	a := &Accessor{spec: spec, opt: opt, init: spec.Birth(), root: streamRoot(seed, spec.ID)}
	if opt.Kind == table.User {
		var err error
		a.user, err = openUser(spec)
		return a, err
	}
	a.rule = RuleOf(opt)
	return a, nil
}

// Rule is what updates rows of this table, unless it is a user's.
func (a *Accessor) Rule() *kernels.Rule { return &a.rule }

// Update applies grads, len(ids) x dim, to the rows of ids, in order. A row whose
// gradient is not finite, or an id that is no row, is left as it is; refused
// counts those.
func (a *Accessor) Update(rows *kernels.Rows, ids []uint32, grads []float32) (refused int) {
	if a.user != nil {
		return a.user.Update(rows, ids, grads)
	}
	return kernels.Update(&a.rule, a.spec.Dim, rows, ids, grads)
}

// Begin lets a user's rule set up the state of rows [first, first+len(keys))
// that Born has filled.
func (a *Accessor) Begin(rows *kernels.Rows, first int, keys []uint64) {
	if a.user != nil {
		a.user.Begin(rows, first, keys)
	}
}

// Close ends a user's rule. Closing again does nothing.
func (a *Accessor) Close() {
	if a.user != nil {
		a.user.Close()
	}
}

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
	table.Sum: kernels.Accumulate, table.Assign: kernels.Assign,
}

// RuleOf translates a valid optimizer, not a user's, for the kernels.
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
