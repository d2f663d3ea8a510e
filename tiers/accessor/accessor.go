package accessor

import (
	"math"

	"psrt/csrc/kernels"
	"psrt/csrc/rule"
	"psrt/tiers/table"
)

// Accessor is one table's row layout, birth and rule. It does not change after
// New and is safe for concurrent use, but for a user's rule and a table with a
// lifecycle: there it belongs to one goroutine.
type Accessor struct {
	spec table.Spec
	opt  table.Optimizer
	init table.Init
	rule kernels.Rule
	root uint64
	user *rule.Rule // nil for built-in rules
	life *life      // nil where rows are made, whole, and stay
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
	if spec.Lifecycle != nil {
		a.life = newLife(spec)
	}
	return a, nil
}

// Spec is the table's description.
func (a *Accessor) Spec() table.Spec { return a.spec }

// Rule is what updates rows of this table, unless it is a user's or parts of a row
// have their own.
func (a *Accessor) Rule() *kernels.Rule { return &a.rule }

// Parts is how rows with a lifecycle are updated now, nil of a table without. The
// owner of the rows reads it anew for each batch: an event changes it.
func (a *Accessor) Parts() *kernels.Parts {
	if a.life == nil {
		return nil
	}
	return &a.life.parts
}

// UserRule says whether a rule of the user's updates rows, in memory of the host.
func (a *Accessor) UserRule() bool { return a.user != nil }

// Update applies grads, len(ids) x PushFloats of the table, to the rows of ids, in
// order. A row whose gradient is not finite, or an id that is no row, is left as
// it is; refused counts those. With a lifecycle, rows must be those that Refresh
// has looked at since the last event (others are refused), and table.NoRow, a key
// that was not admitted, is not counted.
func (a *Accessor) Update(rows *kernels.Rows, ids []uint32, grads []float32) (refused int) {
	if a.user != nil {
		return a.user.Update(rows, ids, grads)
	}
	if a.life != nil {
		return kernels.UpdateParts(&a.life.parts, rows, ids, grads)
	}
	return kernels.Update(&a.rule, a.spec.Dim, rows, ids, grads)
}

// Gather copies what a pull of rows gives to dst, len(ids) x dim: their weights,
// zeros for table.NoRow and for parts that do not live yet.
func (a *Accessor) Gather(rows *kernels.Rows, ids []uint32, dst []float32) {
	a.GatherInto(rows, ids, dst, a.spec.Dim)
}

// GatherInto is Gather into a wider matrix: row i goes to dst[i x step:], and what
// lies between two stays as it is.
func (a *Accessor) GatherInto(rows *kernels.Rows, ids []uint32, dst []float32, step int) {
	if a.life != nil {
		kernels.GatherParts(&a.life.parts, dst, step, rows, ids)
		return
	}
	kernels.Gather(dst, step, a.spec.Dim, rows, ids)
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
	if a.life != nil {
		a.bearParts(key, row)
		return
	}
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
