package nn

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

func randomFloats(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(r.NormFloat64())
	}
	return s
}

// randomSparse makes n examples of up to fields+2 occurrences, some with none.
func randomSparse(r *rand.Rand, n int, parts Parts, dim, fields int) *Sparse {
	x := &Sparse{Parts: parts, Offsets: []int32{0}, Dim: dim, Fields: fields, RowDim: dim + 1}
	const uniques, rows = 300, 400
	for range uniques {
		x.Uniq = append(x.Uniq, r.Int32N(rows))
	}
	x.Matrix = randomFloats(r, rows*x.RowDim)
	for range n {
		for f := range fields {
			for range 1 + r.IntN(8)/7 {
				x.Occ = append(x.Occ, r.Int32N(uniques))
				x.Field = append(x.Field, uint16(f))
				x.Values = append(x.Values, float32(r.NormFloat64()))
			}
		}
		if r.IntN(20) == 0 {
			last := x.Offsets[len(x.Offsets)-1]
			x.Occ, x.Field, x.Values = x.Occ[:last], x.Field[:last], x.Values[:last]
		}
		x.Offsets = append(x.Offsets, int32(len(x.Occ)))
	}
	return x
}

// same fails unless both hold the same bits.
func same(t *testing.T, what string, want, got []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) {
			t.Fatalf("%s: element %d of %d is %x in plain Go, %x here", what, i, len(want), want[i], got[i])
		}
	}
}

// forLevels runs a test at every level this machine has.
func forLevels(t *testing.T, body func(t *testing.T, v Level)) {
	for v := Plain; v <= Best(); v++ {
		t.Run(v.String(), func(t *testing.T) { body(t, v) })
	}
}

func TestSparseBitsEqualPlainGo(t *testing.T) {
	forLevels(t, func(t *testing.T, v Level) {
		r := seedtest.Fixed(t, 1)
		for _, dim := range []int{1, 3, 8, 16, 17, 32, 40} {
			for _, parts := range []Parts{Linear, Linear | FM, Linear | Pool, Linear | FM | Pool, Pool, FM, FM | Pool} {
				x := randomSparse(r, 37, parts, dim, 5)
				if err := x.Check(); err != nil {
					t.Fatal(err)
				}
				n, rows := x.Len(), len(x.Uniq)*x.RowDim
				run := func(forward func(*Sparse, float32, []float32, []float32, []float32), backward func(*Sparse, []float32, []float32, []float32, []float32)) [4][]float32 {
					// Dirty memory: a kernel must not rely on zeros.
					z, s, x0, grads := randomFloats(r, n), randomFloats(r, n*dim), randomFloats(r, n*dim*5), randomFloats(r, rows)
					forward(x, 0.25, z, s, x0)
					backward(x, z, s, x0, grads)
					return [4][]float32{z, s, x0, grads}
				}
				want, got := run(portableForward, portableBackward), run(v.Forward, v.Backward)
				same(t, "logits", want[0], got[0])
				same(t, "gradient rows", want[3], got[3])
				if parts&FM != 0 {
					same(t, "sums", want[1], got[1])
				}
				if parts&Pool != 0 {
					same(t, "pooled", want[2], got[2])
				}
			}
		}
	})
}

var edges = []float32{0, float32(math.Copysign(0, -1)), 1e-30, -1e-30, 0.5, -0.5, 17, -17, 88, -88, 700, -700, 1e30, -1e30,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}

func TestLossBitsEqualPlainGo(t *testing.T) {
	forLevels(t, func(t *testing.T, v Level) {
		r := seedtest.Fixed(t, 1)
		z := append(randomFloats(r, 1000), edges[:14]...)
		y := make([]float32, len(z))
		for i := range y {
			y[i] = float32(r.IntN(2))
		}
		n := len(z)
		g, p, g2, p2 := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		want, got := portableLogLoss(0.125, z, y, g, p), v.LogLoss(0.125, z, y, g2, p2)
		if want != got {
			t.Fatalf("log loss %x in plain Go, %x here", want, got)
		}
		same(t, "gradients", g, g2)
		same(t, "predictions", p, p2)
		portableSigmoid(z, p)
		same(t, "sigmoid in plain Go", p, p2)
		v.Sigmoid(z, p2)
		same(t, "sigmoid", p, p2)
		want, got = portableSquareLoss(0.125, z[:1000], y[:1000], g[:1000]), v.SquareLoss(0.125, z[:1000], y[:1000], g2[:1000])
		if want != got {
			t.Fatalf("squared loss %x in plain Go, %x here", want, got)
		}
		same(t, "gradients", g[:1000], g2[:1000])
	})
}

func TestLossAgreesWithMath(t *testing.T) {
	for _, z := range append(randomFloats(seedtest.Fixed(t, 1), 2000), edges[:14]...) {
		for _, y := range []float32{0, 1} {
			g, p := []float32{0}, []float32{0}
			loss := Best().LogLoss(1, []float32{z}, []float32{y}, g, p)
			t64 := float64(z)
			wantP := 1 / (1 + math.Exp(-t64))
			want := math.Max(t64, 0) - float64(y)*t64 + math.Log1p(math.Exp(-math.Abs(t64)))
			if math.Abs(loss-want) > 1e-12*(1+want) {
				t.Fatalf("log loss of logit %v, label %v is %v, want %v", z, y, loss, want)
			}
			if math.Abs(float64(p[0])-wantP) > 1e-7*wantP+1e-38 || math.Abs(float64(g[0])-(wantP-float64(y))) > 1e-7 {
				t.Fatalf("logit %v, label %v: probability %v, gradient %v, want %v", z, y, p[0], g[0], wantP)
			}
		}
	}
}

// A diverged model must show in the loss, whatever the level.
func TestNotANumberIsNotHidden(t *testing.T) {
	forLevels(t, func(t *testing.T, v Level) {
		nan := float32(math.NaN())
		g, p := []float32{0}, []float32{0}
		if loss := v.LogLoss(1, []float32{nan}, []float32{1}, g, p); loss == loss || p[0] == p[0] || g[0] == g[0] {
			t.Fatalf("loss %v, prediction %v, gradient %v of a NaN logit", loss, p[0], g[0])
		}
		a := make([]float32, 32)
		a[17] = nan
		v.Activate(1, a, nil, make([]float32, 32), Mask{})
		if a[17] == a[17] {
			t.Fatalf("relu turned NaN into %v", a[17])
		}
	})
}

func TestDenseBitsEqualPlainGo(t *testing.T) {
	forLevels(t, func(t *testing.T, v Level) {
		r := seedtest.Fixed(t, 1)
		for _, shape := range [][2]int{{1, 1}, {5, 3}, {33, 16}, {64, 100}, {37, 257}} {
			n, units := shape[0], shape[1]
			var want, got [][]float32
			mask := Mask{Rate: 0.3, Key: MaskKey(1, 2, 3), FirstRow: 1 << 40}
			full := func() []float32 { return randomFloats(r, n*units) }
			cols := func() []float32 { return randomFloats(r, units) }
			twice := func(s []float32) []float32 { // the same operand for both
				want, got = append(want, s), append(got, append([]float32(nil), s...))
				return s
			}
			for _, s := range [][]float32{full(), full(), full(), cols(), cols(), cols(), cols(), randomFloats(r, n), full(), full()} {
				twice(s)
			}
			portableActivate(n, units, want[0], want[3], want[4], mask)
			v.Activate(n, got[0], got[3], got[4], mask)
			portableActivate(n, units, want[9], nil, want[4], Mask{})
			v.Activate(n, got[9], nil, got[4], Mask{})
			portableActivateBack(n, units, want[0], want[1], want[5], mask.inverseKeep())
			v.ActivateBack(n, got[0], got[1], got[5], mask)
			portableNormalize(n, units, want[2], want[3], want[4], want[6])
			v.Normalize(n, got[2], got[3], got[4], got[6])
			portableNormalizeBack(n, units, want[2], want[3], want[6], want[1], want[4], want[5])
			v.NormalizeBack(n, got[2], got[3], got[6], got[1], got[4], got[5])
			portableOutput(n, units, want[2], want[5], want[7])
			v.Output(got[2], got[5], got[7])
			portableOutputBack(n, units, want[2], want[5], want[7], want[8], want[6])
			v.OutputBack(got[2], got[5], got[7], got[8], got[6])
			portableCross(n, units, want[0], want[1], want[3], want[2], want[8])
			v.Cross(n, got[0], got[1], got[3], got[2], got[8])
			portableCrossBack(n, units, want[0], want[2], want[8], want[9], want[1], want[4])
			v.CrossBack(n, got[0], got[2], got[8], got[9], got[1], got[4])
			for i := range want {
				same(t, "operand "+strconv.Itoa(i), want[i], got[i])
			}
		}
	})
}

func TestDropoutKeepsTheRightShare(t *testing.T) {
	const n, units = 400, 256
	for _, rate := range []float32{0.1, 0.2, 0.5, 0.9} {
		a := make([]float32, n*units)
		ones := make([]float32, units)
		for j := range ones {
			ones[j] = 1
		}
		Best().Activate(n, a, nil, ones, Mask{Rate: rate, Key: MaskKey(1, 0, 0)})
		var sum float64
		columns := make([]int, units)
		for i, v := range a {
			sum += float64(v)
			if v == 0 {
				columns[i%units]++
			}
		}
		if mean := sum / (n * units); math.Abs(mean-1) > 0.01/float64(1-rate) {
			t.Errorf("rate %v: mean activation %v, want 1", rate, mean)
		}
		for j, dropped := range columns { // 6 sigma of a binomial of 400
			if p := float64(rate); math.Abs(float64(dropped)-n*p) > 6*math.Sqrt(n*p*(1-p)) {
				t.Errorf("rate %v: unit %d dropped in %d of %d rows", rate, j, dropped, n)
			}
		}
	}
}

// A row's mask is the row's: where the leaf begins does not matter.
func TestDropoutFollowsTheRow(t *testing.T) {
	const units = 64
	ones := make([]float32, units)
	for j := range ones {
		ones[j] = 1
	}
	whole, tail := make([]float32, 8*units), make([]float32, 3*units)
	key := MaskKey(9, 1, 2)
	Best().Activate(8, whole, nil, ones, Mask{Rate: 0.5, Key: key, FirstRow: 100})
	Best().Activate(3, tail, nil, ones, Mask{Rate: 0.5, Key: key, FirstRow: 105})
	same(t, "rows 105 to 107", whole[5*units:], tail)
	for _, other := range []uint64{MaskKey(9, 2, 2), MaskKey(9, 1, 1), MaskKey(8, 1, 2)} {
		again := make([]float32, 8*units)
		Best().Activate(8, again, nil, ones, Mask{Rate: 0.5, Key: other, FirstRow: 100})
		if reflect.DeepEqual(whole, again) {
			t.Errorf("key %x gives the same masks as %x", other, key)
		}
	}
}

func TestCheckFindsEveryBadIndex(t *testing.T) {
	for name, spoil := range map[string]func(x *Sparse){
		"first offset":       func(x *Sparse) { x.Offsets[0] = 1 },
		"no offsets":         func(x *Sparse) { x.Offsets = nil },
		"falling offsets":    func(x *Sparse) { x.Offsets[3] = x.Offsets[4] + 1 },
		"last offset":        func(x *Sparse) { x.Offsets[len(x.Offsets)-1]++ },
		"negative number":    func(x *Sparse) { x.Occ[7] = -1 },
		"number too high":    func(x *Sparse) { x.Occ[7] = int32(len(x.Uniq)) },
		"negative row":       func(x *Sparse) { x.Uniq[5] = -1 },
		"row too high":       func(x *Sparse) { x.Uniq[5] = int32(len(x.Matrix) / x.RowDim) },
		"field too high":     func(x *Sparse) { x.Field[2] = 4 },
		"short fields":       func(x *Sparse) { x.Field = x.Field[1:] },
		"short values":       func(x *Sparse) { x.Values = x.Values[1:] },
		"rows too narrow":    func(x *Sparse) { x.RowDim-- },
		"rows of no columns": func(x *Sparse) { x.RowDim = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			x := randomSparse(seedtest.Fixed(t, 1), 20, Linear|FM|Pool, 4, 4)
			if err := x.Check(); err != nil {
				t.Fatalf("good leaf: %v", err)
			}
			if spoil(x); x.Check() == nil {
				t.Fatal("accepted")
			}
		})
	}
}

func TestWrongLengthsPanic(t *testing.T) {
	defer func() {
		if said, _ := recover().(string); !strings.HasPrefix(said, "nn: ") {
			t.Fatalf("recovered %q, want a panic of nn", said)
		}
	}()
	Best().Output(make([]float32, 7), make([]float32, 4), make([]float32, 2))
}
