package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

var testRules = []Rule{
	{Kind: SGD, LR: 0.1},
	{Kind: SGD, LR: 0.1, L2: 0.01},
	{Kind: AdaGrad, LR: 0.05, Eps: 1e-8},
	{Kind: AdaGrad, LR: 0.05, Eps: 1e-8, L2: 0.1},
	{Kind: RowAdaGrad, LR: 0.05, Eps: 1e-8},
	{Kind: RowAdaGrad, LR: 0.05, Eps: 1e-8, L2: 0.1},
	{Kind: Adam, LR: 0.001, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8},
	{Kind: Adam, LR: 0.01, Beta1: 0.5, Beta2: 0.9, Eps: 1e-8, L2: 0.1},
	{Kind: FTRL, LR: 0.1, Beta: 1},
	{Kind: FTRL, LR: 0.1, Beta: 1, L1: 0.3, L2: 0.2},
	{Kind: EMA, LR: 0.1},
	{Kind: Accumulate},
	{Kind: Assign},
	{Kind: PastAdaGrad, LR: 0.05, Beta: 3},
	{Kind: PastAdaGradEach, LR: 0.05, Beta: 3},
	{Kind: SharedAdam, LR: 0.001, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8},
}

func (r Rule) name(dim int) string {
	return fmt.Sprintf("kind %d l1 %v l2 %v dim %d", r.Kind, r.L1, r.L2, dim)
}

// newState is a plausible row: any weights, accumulators not negative.
func newState(r *Rule, dim int, row []float32) {
	for i := dim; i < len(row); i++ {
		row[i] = float32(math.Abs(float64(row[i])))
	}
	if (r.Kind == Adam || r.Kind == SharedAdam) && len(row) > dim {
		row[len(row)-2], row[len(row)-1] = 1, 1
	}
}

// TestUpdateLevelsEqual runs every level over the same rows and gradients,
// ordinary and special, and wants the same bits and the same refusals.
func TestUpdateLevelsEqual(t *testing.T) {
	r := seedtest.Rand(t)
	for _, rule := range testRules {
		for dim := 1; dim <= 67; dim++ {
			const count = 21
			stride := dim + rule.Kind.StateFloats(dim)
			rows, mem := makeRows(t, count, stride, 3)
			start := make([]float32, len(mem))
			fill(r, start, 25)
			for i := range count {
				newState(&rule, dim, start[i*stride:(i+1)*stride])
			}
			ids := []uint32{^uint32(0), count} // neither is a row
			for _, i := range r.Perm(count) {
				ids = append(ids, uint32(i))
			}
			grads := make([]float32, 3*len(ids)*dim)
			fill(r, grads, 200)
			var want []float32
			var wantRefused int
			for _, l := range Levels() {
				copy(mem, start)
				refused := 0
				for step := range 3 {
					refused += l.Update(&rule, dim, rows, ids, grads[step*len(ids)*dim:])
				}
				if l == Go {
					want, wantRefused = slices.Clone(mem), refused
					continue
				}
				if i := firstDifference(mem, want); i >= 0 || refused != wantRefused {
					t.Fatalf("%s: level %v differs from go at row %d float %d: %x, want %x; %d refused, want %d", rule.name(dim), l,
						i/stride, i%stride, math.Float32bits(mem[max(i, 0)]), math.Float32bits(want[max(i, 0)]), refused, wantRefused)
				}
			}
		}
	}
}

// reference is the rule as the papers write it, in float64.
func reference(r *Rule, dim int, row []float64, grad []float32) {
	w, s := row[:dim], row[dim:]
	lr, l2, eps := float64(r.LR), float64(r.L2), float64(r.Eps)
	g := make([]float64, dim)
	mean := 0.0
	for i := range g {
		g[i] = float64(grad[i])
		if r.Kind != FTRL && r.Kind != EMA {
			g[i] += l2 * w[i]
		}
		mean += g[i] * g[i] / float64(dim)
	}
	if r.Kind == RowAdaGrad {
		s[0] += mean
	}
	if r.Kind == Adam {
		s[2*dim] *= float64(r.Beta1)
		s[2*dim+1] *= float64(r.Beta2)
	}
	m, v, past := 0.0, 0.0, 0.0
	switch r.Kind {
	case PastAdaGrad:
		past = s[0]
		s[0] += mean
	case SharedAdam:
		s[2] *= float64(r.Beta1)
		s[3] *= float64(r.Beta2)
		m, v, s[0], s[1] = s[0], s[1], 0, 0
	}
	for i := range w {
		switch r.Kind {
		case SGD:
			w[i] -= lr * g[i]
		case AdaGrad:
			s[i] += g[i] * g[i]
			w[i] -= lr * g[i] / (math.Sqrt(s[i]) + eps)
		case RowAdaGrad:
			w[i] -= lr * g[i] / (math.Sqrt(s[0]) + eps)
		case Adam:
			b1, b2 := float64(r.Beta1), float64(r.Beta2)
			s[i] = b1*s[i] + (1-b1)*g[i]
			s[dim+i] = b2*s[dim+i] + (1-b2)*g[i]*g[i]
			w[i] -= lr * s[i] / (1 - s[2*dim]) / (math.Sqrt(s[dim+i]/(1-s[2*dim+1])) + eps)
		case FTRL:
			n := s[dim+i] + g[i]*g[i]
			s[i] += g[i] - (math.Sqrt(n)-math.Sqrt(s[dim+i]))/lr*w[i]
			s[dim+i] = n
			w[i] = 0
			if math.Abs(s[i]) > float64(r.L1) {
				w[i] = -(s[i] - math.Copysign(float64(r.L1), s[i])) / ((float64(r.Beta)+math.Sqrt(n))/lr + l2)
			}
		case EMA:
			w[i] = (1-lr)*w[i] + lr*g[i]
		case Accumulate:
			w[i] += g[i]
		case Assign:
			w[i] = g[i]
		case PastAdaGrad:
			w[i] -= lr * g[i] * math.Sqrt(float64(r.Beta)/(float64(r.Beta)+past))
		case PastAdaGradEach:
			w[i] -= lr * g[i] * math.Sqrt(float64(r.Beta)/(float64(r.Beta)+s[i]))
			s[i] += g[i] * g[i]
		case SharedAdam:
			b1, b2 := float64(r.Beta1), float64(r.Beta2)
			m1, v1 := b1*m+(1-b1)*g[i], b2*v+(1-b2)*g[i]*g[i]
			s[0] += m1 / float64(dim)
			s[1] += v1 / float64(dim)
			w[i] -= lr * m1 / (1 - s[2]) / (math.Sqrt(v1/(1-s[3])) + eps)
		}
	}
}

// TestUpdateAgainstFloat64 follows rows for 30 steps beside the reference.
func TestUpdateAgainstFloat64(t *testing.T) {
	r := seedtest.Rand(t)
	for _, rule := range testRules {
		for _, dim := range []int{1, 7, 16, 33, 64} {
			stride := dim + rule.Kind.StateFloats(dim)
			rows, row := makeRows(t, 1, stride, 0)
			clear(row)
			fill(r, row[:dim], 0)
			newState(&rule, dim, row)
			ref, grad := make([]float64, stride), make([]float32, dim)
			for i, x := range row {
				ref[i] = float64(x)
			}
			for range 30 {
				fill(r, grad, 0)
				if Update(&rule, dim, rows, []uint32{0}, grad) != 0 {
					t.Fatal("a finite gradient was refused")
				}
				reference(&rule, dim, ref, grad)
			}
			for i, x := range ref[:dim] {
				if d := math.Abs(float64(row[i]) - x); d > 2e-4*(1+math.Abs(x)) {
					t.Fatalf("%s: weight %d is %v, reference %v", rule.name(dim), i, row[i], x)
				}
			}
		}
	}
}

// TestNonFiniteGradientsAreRefused puts one bad value at every place of a row.
func TestNonFiniteGradientsAreRefused(t *testing.T) {
	const dim = 37
	rule := Rule{Kind: AdaGrad, LR: 0.1, Eps: 1e-8}
	rows, mem := makeRows(t, 2, 2*dim, 1)
	for _, l := range Levels() {
		for at := range dim {
			for _, bad := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
				clear(mem)
				grads := make([]float32, 2*dim)
				for i := range grads {
					grads[i] = 1
				}
				grads[at] = bad
				if n := l.Update(&rule, dim, rows, []uint32{1, 0}, grads); n != 1 {
					t.Fatalf("%v: %v at %d: %d rows refused, want 1", l, bad, at, n)
				}
				if mem[2*dim] != 0 || mem[2*dim+dim] != 0 || mem[0] == 0 {
					t.Fatalf("%v: the refused row changed or the other did not", l)
				}
			}
		}
	}
}

// TestAdamPowersEnd: the powers reach 0, not a denormal, and learning goes on.
func TestAdamPowersEnd(t *testing.T) {
	rule := Rule{Kind: Adam, LR: 0.001, Beta1: 0.5, Beta2: 0.6, Eps: 1e-8}
	rows, row := makeRows(t, 1, 5, 0)
	for _, l := range Levels() {
		clear(row)
		row[3], row[4] = 1, 1
		for range 500 {
			l.Update(&rule, 1, rows, []uint32{0}, []float32{1})
		}
		if row[3] != 0 || row[4] != 0 || math.Abs(float64(row[0])+0.5) > 0.01 {
			t.Errorf("%v: after 500 steps of .001 the row is %v", l, row)
		}
	}
}

func TestGather(t *testing.T) {
	r := seedtest.Rand(t)
	for dim := 1; dim <= 67; dim++ {
		const count = 50
		stride := dim + r.IntN(5)
		rows, mem := makeRows(t, count, stride, 4)
		fill(r, mem, 20)
		ids := []uint32{^uint32(0), count}
		for range 100 {
			ids = append(ids, r.Uint32N(count))
		}
		for _, l := range Levels() {
			step := dim + r.IntN(4)
			dst := make([]float32, len(ids)*step+1)
			fill(r, dst, 0)
			want := slices.Clone(dst) // what lies between rows, and past the end
			for i, id := range ids {
				row := want[i*step : i*step+dim]
				clear(row)
				if id < count {
					copy(row, mem[int(id)*stride:])
				}
			}
			l.Gather(dst, step, dim, rows, ids)
			if at := firstDifference(dst, want); at >= 0 {
				t.Fatalf("%v: dim %d, step %d: row %d differs at %d", l, dim, step, at/step, at%step)
			}
		}
	}
}
