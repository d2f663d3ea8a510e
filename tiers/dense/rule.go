package dense

import (
	"fmt"

	"psrt/csrc/kernels"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// Rule is how a block changes: by an optimizer, or, when EMA is not 0, as a
// running average of what is pushed (batch-norm statistics): value = (1 - EMA)
// value + EMA pushed.
type Rule struct {
	Optimizer table.Optimizer
	EMA       float32
}

// Validate reports what is wrong with the rule, or nil.
func (r Rule) Validate() error {
	if r.EMA == 0 {
		if r.Optimizer.Kind == table.User {
			return fmt.Errorf("dense: rule %s of %s: a dense vector takes built-in rules only", table.User, r.Optimizer.Library)
		}
		return r.Optimizer.Validate()
	}
	if !(r.EMA > 0 && r.EMA <= 1) {
		return fmt.Errorf("dense: ema %v, the share of a pushed value must be above 0 and at most 1", r.EMA)
	}
	return nil
}

func (r Rule) kernel() kernels.Rule {
	if r.EMA != 0 {
		return kernels.Rule{Kind: kernels.EMA, LR: r.EMA}
	}
	return accessor.RuleOf(r.Optimizer)
}

func (r Rule) newState(values, state []float32) {
	if r.EMA == 0 {
		accessor.NewState(r.Optimizer, values, state)
	}
}
