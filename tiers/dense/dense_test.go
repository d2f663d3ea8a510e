package dense

import (
	"math"
	"slices"
	"strings"
	"testing"

	"psrt/tiers/table"
)

// newVector makes a vector that must not fail.
func newVector(t testing.TB, parts ...Part) *Vector {
	t.Helper()
	v, err := New(parts, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		want float64 // after gradients 2, then 2, from 1
	}{
		{"sgd", Rule{Optimizer: table.Optimizer{Kind: table.SGD, LR: 0.1}}, 0.6},
		{"adagrad", Rule{Optimizer: table.Optimizer{Kind: table.AdaGrad, LR: 0.1}}, 0.9 - 0.1*2/math.Sqrt(8)},
		{"rowadagrad", Rule{Optimizer: table.Optimizer{Kind: table.RowAdaGrad, LR: 0.1}}, 0.9 - 0.1*2/math.Sqrt(8)},
		{"adam", Rule{Optimizer: table.Optimizer{Kind: table.Adam, LR: 0.1}}, 0.8},
		{"ftrl", Rule{Optimizer: table.Optimizer{Kind: table.FTRL, LR: 0.1}}, func() float64 {
			w := 1 - 2/30.0                     // sqrt n = 2: divisor (1+2)/.1
			return w - 2/((1+math.Sqrt(8))/0.1) // sqrt n = sqrt 8
		}()},
		{"ema", Rule{EMA: 0.25}, 1*0.75*0.75 + 2*0.25*0.75 + 2*0.25},
	} {
		ones := slices.Repeat([]float32{1}, 37)
		v := newVector(t, Part{c.rule, ones}, Part{c.rule, ones})
		g := slices.Repeat([]float32{2}, 37)
		// Block 0 is published after every gradient, block 1 after both.
		refused := v.Apply(0, g) + v.Apply(1, g)
		refused += v.Apply(1, g)
		v.Publish()
		refused += v.Apply(0, g)
		v.Publish()
		if refused != 0 || v.Version() != 2 {
			t.Fatalf("%s: %d refused, version %d, want 2", c.name, refused, v.Version())
		}
		for i, x := range v.Published().Values(0, 2) {
			if math.Abs(float64(x)-c.want) > 1e-5 {
				t.Fatalf("%s: value %d is %v, want %v", c.name, i, x, c.want)
			}
		}
		if !slices.Equal(v.State(0), v.State(1)) {
			t.Errorf("%s: state %v and %v", c.name, v.State(0), v.State(1))
		}
	}
}

func TestRefusesNonFinite(t *testing.T) {
	v := newVector(t, Part{Values: []float32{1, 2, 3}}, Part{Values: []float32{4}})
	bad := []float32{1, float32(math.NaN()), 1}
	if n := v.Apply(0, bad); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
	if n := v.Publish(); n != 0 || v.Version() != 0 || !slices.Equal(v.Values(0), []float32{1, 2, 3}) {
		t.Errorf("values %v version %d, %d carried over after a refused gradient", v.Values(0), v.Version(), n)
	}
	// Beside a block that changes, the refused one is carried over.
	v.Apply(0, bad)
	v.Apply(1, []float32{1})
	if n := v.Publish(); n != 3 || v.Version() != 1 || !slices.Equal(v.Values(0), []float32{1, 2, 3}) || v.Values(1)[0] == 4 {
		t.Errorf("values %v and %v, version %d, %d carried over", v.Values(0), v.Values(1), v.Version(), n)
	}
}

func TestLoadRoundTrip(t *testing.T) {
	rule := Rule{Optimizer: table.Optimizer{Kind: table.Adam}}
	a, b := newVector(t, Part{rule, make([]float32, 20)}), newVector(t, Part{rule, make([]float32, 20)})
	g := slices.Repeat([]float32{0.5}, 20)
	a.Apply(0, g)
	a.Publish()
	if err := b.Load(0, a.Values(0), a.State(0)); err != nil {
		t.Fatal(err)
	}
	b.Publish()
	for _, v := range []*Vector{a, b} {
		v.Apply(0, g)
		v.Publish()
	}
	if !slices.Equal(a.Values(0), b.Values(0)) || !slices.Equal(a.State(0), b.State(0)) {
		t.Error("a loaded block goes on differently")
	}
	if err := b.Load(0, a.Values(0), a.State(0)[1:]); err == nil || !strings.Contains(err.Error(), "41") {
		t.Errorf("error %v for a state too short, want one with its length", err)
	}
}

func TestBadArguments(t *testing.T) {
	for _, c := range []struct {
		rule   Rule
		values int
		want   string
	}{
		{Rule{EMA: 1.5}, 1, "ema 1.5"},
		{Rule{EMA: float32(math.NaN())}, 1, "ema NaN"},
		{Rule{Optimizer: table.Optimizer{Kind: "x"}}, 1, `"x"`},
		{Rule{Optimizer: table.Optimizer{Kind: table.User, Library: "x.so"}}, 1, "built-in rules only"},
		{Rule{}, 0, "0 floats"},
	} {
		if v, err := New([]Part{{Values: []float32{1}}, {c.rule, make([]float32, c.values)}}, -1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, error %v, want one that says %q", c.rule, v, err, c.want)
		}
	}
	if _, err := New(nil, -1); err == nil {
		t.Error("a vector without blocks was accepted")
	}
	v := newVector(t, Part{Values: make([]float32, 4)})
	defer func() {
		if recover() == nil {
			t.Error("a gradient of another length was accepted")
		}
	}()
	v.Apply(0, make([]float32, 3))
}
