package tree

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

func TestLeaves(t *testing.T) {
	for _, c := range []struct{ batch, micro, leaves int }{
		{0, 0, 0}, {-5, 0, 0}, {1, 1, 1}, {7, 1, 7}, {8, 1, 8}, {9, 2, 5}, {100, 13, 8},
		{4096, 512, 8}, {4097, 512, 9}, {1 << 20, 512, 2048}, {math.MaxInt, 512, math.MaxInt/512 + 1},
	} {
		micro, leaves := Leaves(c.batch)
		if micro != c.micro || leaves != c.leaves {
			t.Errorf("Leaves(%d) = %d, %d, want %d, %d", c.batch, micro, leaves, c.micro, c.leaves)
		}
	}
	for batch := 1; batch < 20000; batch++ {
		micro, leaves := Leaves(batch)
		if micro < 1 || micro > MaxMicro || micro*leaves < batch || micro*(leaves-1) >= batch {
			t.Fatalf("Leaves(%d) = %d, %d does not cover the batch once", batch, micro, leaves)
		}
	}
}

// naive is the tree as defined, recursively on values.
func naive(x []*float32) *float32 {
	if len(x) == 1 {
		return x[0]
	}
	k := 1
	for k*2 < len(x) {
		k *= 2
	}
	return add(naive(x[:k]), naive(x[k:]))
}

func add(a, b *float32) *float32 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	s := *a + *b
	return &s
}

func run(x []*float32, merges []Merge) *float32 {
	x = slices.Clone(x)
	for _, m := range merges {
		x[m.Dst] = add(x[m.Dst], x[m.Src])
	}
	return x[0]
}

func same(a, b *float32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return math.Float32bits(*a) == math.Float32bits(*b)
}

func TestSameSumWhateverTheWorkers(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 1))
	differs := false // from plain left-to-right: else the test proves nothing
	for leaves := 1; leaves <= 70; leaves++ {
		for round := range 4 {
			x := make([]*float32, leaves)
			for i := range x {
				if round < 2 || r.IntN(3) > 0 {
					v := float32(r.NormFloat64() * math.Exp(r.NormFloat64()*4))
					x[i] = &v
				}
			}
			want := naive(x)
			if got := run(x, Merges(0, leaves)); !same(got, want) {
				t.Fatalf("%d leaves: Merges gives %v, the recursive definition %v", leaves, got, want)
			}
			left := x[0]
			for _, y := range x[1:] {
				left = add(left, y)
			}
			differs = differs || !same(left, want)
			for workers := 1; workers <= min(16, leaves); workers++ {
				shares, err := Shares(leaves, workers)
				if err != nil {
					t.Fatal(err)
				}
				sums := make([]*float32, workers)
				for w, s := range shares {
					sums[w] = run(x[s.First:s.Last], Merges(s.First, s.Last))
				}
				top, err := Top(shares)
				if err != nil {
					t.Fatal(err)
				}
				if got := run(sums, top); !same(got, want) {
					t.Fatalf("%d leaves, %d workers %v: sum differs from one process", leaves, workers, shares)
				}
			}
		}
	}
	if !differs {
		t.Fatal("every order gave the same sum: the inputs are too tame to prove anything")
	}
}

func TestShares(t *testing.T) {
	for leaves := 1; leaves <= 130; leaves++ {
		for workers := 1; workers <= leaves; workers++ {
			shares, err := Shares(leaves, workers)
			if err != nil {
				t.Fatal(err)
			}
			next := 0
			for _, s := range shares {
				if s.First != next || s.Last <= s.First {
					t.Fatalf("%d leaves, %d workers: shares %v", leaves, workers, shares)
				}
				next = s.Last
			}
			if next != leaves || len(shares) != workers {
				t.Fatalf("%d leaves, %d workers: shares %v", leaves, workers, shares)
			}
		}
	}
	got, _ := Shares(8, 3)
	if want := []Share{{0, 2}, {2, 4}, {4, 8}}; !slices.Equal(got, want) {
		t.Errorf("Shares(8, 3) = %v, want %v", got, want)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range [][2]int{{0, 1}, {1, 0}, {3, 4}, {-1, -1}} {
		if _, err := Shares(c[0], c[1]); err == nil {
			t.Errorf("Shares(%d, %d) gave no error", c[0], c[1])
		}
	}
	if _, err := Shares(8, 9); !strings.Contains(err.Error(), "at most 8 workers") {
		t.Errorf("no remedy in %q", err)
	}
	for _, s := range [][]Share{nil, {{0, 3}, {3, 8}}, {{1, 4}}, {{0, 4}, {4, 8}, {8, 8}}, {{0, 4}, {5, 8}}, {{0, 2}, {2, 4}, {4, 5}, {5, 8}}} {
		if m, err := Top(s); err == nil {
			t.Errorf("Top(%v) = %v, want an error", s, m)
		}
	}
}
