package accessor

import (
	"fmt"

	"psrt/csrc/kernels"
	"psrt/tiers/table"
)

// View reads stored rows of a table: what a pull would give and what serving
// wants. It belongs to one goroutine.
type View struct {
	spec table.Spec
	life *life // nil without a lifecycle
	now  []float32
}

// NewView is the view at the end of a history ("" where the table has no
// lifecycle).
func NewView(spec table.Spec, history string) (*View, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	v := &View{spec: spec}
	if spec.Lifecycle == nil {
		if history != "" {
			return nil, fmt.Errorf("table %q has no lifecycle and a history of %d events", spec.Name, len(history))
		}
		return v, nil
	}
	h, err := ParseHistory(history)
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	v.life, v.now = newLife(spec), make([]float32, kernels.LifeFloats)
	v.life.history, v.life.parts.Seq = h, uint32(h.Len())
	return v, nil
}

func (v *View) settle(row []float32) (Counters, bool) {
	copy(v.now, row[v.life.parts.Life:])
	isAlive := v.life.settle(v.now)
	return decodeCounters(v.now), isAlive
}

// Counters are a stored row's at the history's end, and whether it is alive then.
func (v *View) Counters(row []float32) (Counters, bool) {
	if v.life == nil {
		return Counters{flags: kernels.Admitted | kernels.Extended}, true
	}
	return v.settle(row)
}

// Serves says whether a model for serving has a stored row: the base filter.
func (v *View) Serves(row []float32) bool {
	if v.life == nil {
		return true
	}
	c, isAlive := v.settle(row)
	return isAlive && v.life.keeps(ModeBase, &c)
}

// Weights writes what a pull of a stored row gives to dst, Dim floats.
func (v *View) Weights(row, dst []float32) {
	live := v.spec.Dim
	if v.life != nil {
		switch c, isAlive := v.settle(row); {
		case !isAlive || !c.Admitted():
			live = 0
		case !c.Extended():
			live = 1
		}
	}
	copy(dst[:live], row)
	clear(dst[live:v.spec.Dim])
}
