package train

import (
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// Adam's rates where nobody says one. AdamRate suits click data with batches of some thousand,
// and dense values beside rows of another optimizer. staleRate is the library's own default, made
// for small batches, and low enough for gradients that are some steps late.
const (
	AdamRate  = 0.005
	staleRate = 0.001
)

// pairsRate: in a model that multiplies the vectors of a row's fields a step of this rate over
// the fields' square moves predictions as little as late gradients allow. Measured on Criteo's
// shape (39 fields; at .005 gradients one step late make fm diverge, at .001 ten do not) and with
// 24 and 16 fields, where .005 does no harm; docs/training.md.
const pairsRate = 1.5

// RateOf is the default rate of a kind of optimizer in this job, 0: that of the kind. Adam's is
// lower where rows' gradients may be late and predictions have terms of pairs of fields: each of
// many fields then moves them several times before the first effect is seen.
func (j *Job) RateOf(kind string) float32 {
	if kind != table.Adam {
		return 0
	}
	if j.mode(EmbeddingTable).BSP() || j.Model.Kind == model.LR {
		return AdamRate
	}
	fields := float32(max(1, j.Model.Fields))
	return min(AdamRate, max(staleRate, pairsRate/(fields*fields)))
}
