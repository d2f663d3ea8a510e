package train

import (
	"math"
	"testing"

	"psrt/sched/train/model"
)

func TestClip(t *testing.T) {
	norm := func(g *model.LeafGrad, but []bool) float64 {
		return math.Sqrt(squares(g.Rows, nil) + squares(g.Dense, but))
	}
	averages := []bool{false, true}
	leaf := func() *model.LeafGrad {
		return &model.LeafGrad{Rows: []float32{3, -4, .5}, Dense: []float32{12, 100}}
	}
	g := leaf()
	Clip{Norm: 2}.apply(g, 50, 100, averages) // a half of the step: a norm of 1
	if got := norm(g, averages); math.Abs(got-1) > 1e-6 || g.Dense[1] != 100 || math.Abs(float64(g.Rows[1]/g.Rows[0]+4./3)) > 1e-6 {
		t.Errorf("clipped to a norm of %g: %+v", got, g)
	}
	g = leaf()
	Clip{Norm: 100}.apply(g, 50, 100, averages)
	if w := leaf(); g.Rows[1] != w.Rows[1] || g.Dense[0] != w.Dense[0] {
		t.Errorf("what is below the bound became %+v", g)
	}
	g = leaf()
	Clip{Value: 2}.apply(g, 50, 100, averages)
	if g.Rows[0] != 1 || g.Rows[1] != -1 || g.Rows[2] != .5 || g.Dense[0] != 1 || g.Dense[1] != 100 {
		t.Errorf("clipped by value: %+v", g)
	}
	for _, c := range []Clip{{Norm: 1}, {Value: 1}, {1, 1}} {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			g = leaf()
			g.Rows[1] = float32(bad)
			c.apply(g, 1, 1, averages)
			if f := float64(g.Rows[1]); !math.IsNaN(f) && !math.IsInf(f, 0) {
				t.Errorf("%+v makes %g of %g: nobody would refuse it", c, f, bad)
			}
			g = leaf()
			g.Dense[0] = float32(bad)
			c.apply(g, 1, 1, averages)
			if f := float64(g.Dense[0]); !math.IsNaN(f) && !math.IsInf(f, 0) {
				t.Errorf("%+v makes %g of %g: nobody would refuse it", c, f, bad)
			}
		}
	}
	for _, c := range []Clip{{Norm: -1}, {Value: math.NaN()}, {Value: math.Inf(1)}} {
		if c.validate() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}
