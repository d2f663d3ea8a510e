package blas

import (
	"math"
	"testing"

	"psrt/csrc/seedtest"
)

// TestChained: what Gemm is said to do it does, for every element of products that were not
// looked at.
func TestChained(t *testing.T) {
	asked := []Product{{M: 64, N: 48, K: 800}, {TransA: true, M: 300, N: 48, K: 64}, {TransB: true, M: 64, N: 300, K: 500}, {TransB: true, Add: true, M: 64, N: 300, K: 48}}
	cut, ok := Chained(asked)
	t.Logf("%s: %v, %v", Config(), cut, ok)
	if !ok {
		if cut != Whole {
			t.Errorf("sums that are no chains are cut as %v", cut)
		}
		return
	}
	r := seedtest.Fixed(t, 1)
	for _, p := range asked {
		s := sampleOf(p)
		copy(s.a, random(r, len(s.a)))
		copy(s.b, random(r, len(s.b)))
		a, b, beta := Dense(s.a, p.M, p.K), Dense(s.b, p.K, p.N), float32(0)
		aRow, aStep, bStep, bCol := p.K, 1, p.N, 1
		if p.TransA {
			a, aRow, aStep = Dense(s.a, p.K, p.M), 1, p.M
		}
		if p.TransB {
			b, bStep, bCol = Dense(s.b, p.N, p.K), 1, p.K
		}
		if p.Add {
			beta = 1
		}
		copy(s.c, s.before)
		Gemm(p.TransA, p.TransB, a, b, beta, Dense(s.c, p.M, p.N))
		for at, got := range s.c {
			c := beta * s.before[at]
			if want := chain(s.a[at/p.N*aRow:], aStep, s.b[at%p.N*bCol:], bStep, p.K, cut, c); math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("%+v: element %d is %x, by chains %x", p, at, got, want)
			}
		}
	}
}
