package dense

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"psrt/tiers/table"
)

func newBlock(t testing.TB, rule Rule, values []float32) *Block {
	t.Helper()
	b, err := New(rule, values)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
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
		b := newBlock(t, c.rule, slices.Repeat([]float32{1}, 37))
		g := slices.Repeat([]float32{2}, 37)
		if b.Apply(g)+b.Apply(g) != 0 || b.Version() != 2 {
			t.Fatalf("%s: refused, or version %d, want 2", c.name, b.Version())
		}
		for i, x := range b.Values() {
			if math.Abs(float64(x)-c.want) > 1e-5 {
				t.Fatalf("%s: value %d is %v, want %v", c.name, i, x, c.want)
			}
		}
	}
}

func TestRefusesNonFinite(t *testing.T) {
	b := newBlock(t, Rule{}, []float32{1, 2, 3})
	if n := b.Apply([]float32{1, float32(math.NaN()), 1}); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
	if !slices.Equal(b.Values(), []float32{1, 2, 3}) || b.Version() != 0 {
		t.Errorf("values %v version %d after a refused gradient", b.Values(), b.Version())
	}
}

func TestLoadRoundTrip(t *testing.T) {
	rule := Rule{Optimizer: table.Optimizer{Kind: table.Adam}}
	a, b := newBlock(t, rule, make([]float32, 20)), newBlock(t, rule, make([]float32, 20))
	g := slices.Repeat([]float32{0.5}, 20)
	a.Apply(g)
	if err := b.Load(a.Values(), a.State()); err != nil {
		t.Fatal(err)
	}
	a.Apply(g)
	b.Apply(g)
	if !slices.Equal(a.Values(), b.Values()) || !slices.Equal(a.State(), b.State()) {
		t.Error("a loaded block goes on differently")
	}
	if err := b.Load(a.Values(), a.State()[1:]); err == nil || !strings.Contains(err.Error(), "41") {
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
		if b, err := New(c.rule, make([]float32, c.values)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, error %v, want one that says %q", c.rule, b, err, c.want)
		}
	}
	b := newBlock(t, Rule{}, make([]float32, 4))
	defer func() {
		if recover() == nil {
			t.Error("a gradient of another length was accepted")
		}
	}()
	b.Apply(make([]float32, 3))
}

// TestReadersSeeWholeBlocks: all values of a block are equal at every version;
// a torn read would mix two.
func TestReadersSeeWholeBlocks(t *testing.T) {
	const n, updates = 1000, 2000
	b := newBlock(t, Rule{Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}, make([]float32, n))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			dst := make([]float32, n)
			for {
				v := b.Read(dst)
				for i, x := range dst {
					if x != -float32(v) {
						t.Errorf("version %d: value %d is %v", v, i, x)
						return
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	g := slices.Repeat([]float32{1}, n)
	for range updates {
		b.Apply(g)
	}
	close(stop)
	wg.Wait()
	if b.Version() != updates {
		t.Errorf("version %d, want %d", b.Version(), updates)
	}
}
