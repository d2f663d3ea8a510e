package accessor

import (
	"math"
	"slices"
	"testing"

	"psrt/csrc/kernels"
	"psrt/tiers/table"
)

func spec(dim int, init table.Init, kind string) table.Spec {
	return table.Spec{Name: "t", ID: 3, Dim: dim, Init: init, Optimizer: table.Optimizer{Kind: kind}}
}

func born(t *testing.T, s table.Spec, seed, key uint64) []float32 {
	t.Helper()
	a, err := New(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, a.RowFloats())
	fill(row, float32(math.NaN())) // every float must be written
	a.Born(key, row)
	return row
}

// TestBornGolden pins the birth of rows: models on disk depend on it.
func TestBornGolden(t *testing.T) {
	for _, c := range []struct {
		kind string
		want []uint32
	}{
		{table.InitUniform, goldenUniform},
		{table.InitNormal, goldenNormal},
	} {
		row := born(t, spec(4, table.Init{ZeroPrefix: 1, Kind: c.kind, Scale: 0.5}, table.SGD), 42, ^uint64(0))
		var got []uint32
		for _, x := range row {
			got = append(got, math.Float32bits(x))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %#x, want %#x", c.kind, got, c.want)
		}
	}
}

// TestBornDependsOnAll: seed, table and key each make other rows, and nothing
// else does.
func TestBornDependsOnAll(t *testing.T) {
	s := spec(8, table.Init{}, table.SGD)
	base := born(t, s, 1, 1)
	if !slices.Equal(base, born(t, s, 1, 1)) {
		t.Error("the same birth gave two rows")
	}
	other := s
	other.ID = 4
	for name, row := range map[string][]float32{"seed": born(t, s, 2, 1), "key": born(t, s, 1, 2), "table": born(t, other, 1, 1)} {
		if slices.Equal(base, row) {
			t.Errorf("another %s gave the same row", name)
		}
	}
	longer := born(t, spec(16, table.Init{}, table.SGD), 1, 1)
	if !slices.Equal(base, longer[:8]) {
		t.Error("element i depends on the dimension")
	}
}

// TestDistributions checks moments and bounds over many keys.
func TestDistributions(t *testing.T) {
	for _, c := range []struct {
		kind       string
		sigma, max float64
	}{{table.InitUniform, 2 / math.Sqrt(12), 1}, {table.InitNormal, 1, 6}, {table.InitZero, 0, 0}} {
		a, err := New(spec(10, table.Init{ZeroPrefix: 2, Kind: c.kind, Scale: 2}, table.SGD), 5)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, 10)
		var n, sum, sum2, sum4, product float64
		for key := range uint64(20000) {
			a.Born(key, row)
			if row[0] != 0 || row[1] != 0 {
				t.Fatal("the prefix is not zero")
			}
			for i, x := range row[2:] {
				v := float64(x) / 2
				if math.Abs(v) > c.max {
					t.Fatalf("%s: %v beyond %v", c.kind, v, c.max)
				}
				n, sum, sum2, sum4 = n+1, sum+v, sum2+v*v, sum4+v*v*v*v
				if i > 0 {
					product += v * float64(row[i+1]) / 2
				}
			}
		}
		if math.Abs(sum/n) > 0.01 || math.Abs(math.Sqrt(sum2/n)-c.sigma) > 0.01 || math.Abs(product/n) > 0.01 {
			t.Errorf("%s: mean %v, deviation %v (want %v), neighbours' product %v", c.kind, sum/n, math.Sqrt(sum2/n), c.sigma, product/n)
		}
		if k := sum4 / n / (sum2 / n * sum2 / n); c.kind == table.InitNormal && math.Abs(k-2.9) > 0.05 { // 3 - 6/(5x12)
			t.Errorf("normal: kurtosis %v, want 2.9", k)
		}
	}
}

func TestState(t *testing.T) {
	for kind, want := range map[string][]float32{
		table.SGD:        nil,
		table.AdaGrad:    {0.25, 0.25},
		table.RowAdaGrad: {0.25},
		table.Adam:       {0, 0, 0, 0, 1, 1},
	} {
		s := spec(2, table.Init{}, kind)
		s.Optimizer.InitialAccumulator = 0.25
		if got := born(t, s, 1, 1)[2:]; !slices.Equal(got, want) {
			t.Errorf("%s: state %v, want %v", kind, got, want)
		}
	}
}

// TestFTRLKeepsItsStart: a vanishing gradient leaves the drawn weights where
// they are.
func TestFTRLKeepsItsStart(t *testing.T) {
	s := spec(20, table.Init{ZeroPrefix: 1, Scale: 0.1}, table.FTRL)
	s.Optimizer.L1, s.Optimizer.L2, s.Optimizer.InitialAccumulator = 0.3, 0.2, 0.04
	a, err := New(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, a.RowFloats())
	a.Born(9, row)
	start := slices.Clone(row[:20])
	kernels.Go.Update(a.Rule(), 20, &kernels.Rows{Bases: []*float32{&row[0]}, Stride: len(row), Count: 1}, []uint32{0}, make([]float32, 20))
	for i := range start {
		if math.Abs(float64(row[i]-start[i])) > 1e-6 {
			t.Errorf("weight %d went from %v to %v", i, start[i], row[i])
		}
	}
}

// TestEveryKindHasAKernel: the layouts of both floors agree.
func TestEveryKindHasAKernel(t *testing.T) {
	for kind := range kinds {
		o := table.Optimizer{Kind: kind}
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
		if got, want := RuleOf(o).Kind.StateFloats(7), o.StateFloats(7); got != want {
			t.Errorf("%s: the kernel's state has %d floats, the table's %d", kind, got, want)
		}
	}
}

// TestSumsBeginAtZero: where a description does not say how rows are born.
func TestSumsBeginAtZero(t *testing.T) {
	for _, kind := range []string{table.Sum, table.Assign} {
		if got := born(t, spec(3, table.Init{}, kind), 1, 1); !slices.Equal(got, make([]float32, 3)) {
			t.Errorf("%s: a new row is %v", kind, got)
		}
		if got := born(t, spec(3, table.Init{Kind: table.InitUniform}, kind), 1, 1); slices.Equal(got, make([]float32, 3)) {
			t.Errorf("%s: init uniform was ignored", kind)
		}
	}
}
