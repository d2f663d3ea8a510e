package table

import (
	"crypto/sha256"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
)

func good() Spec {
	return Spec{Name: "e", ID: 1, Dim: 8, Optimizer: Optimizer{Kind: AdaGrad}}
}

func TestValidate(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name string
		edit func(*Spec)
		want string // "" = valid, else a part of the message
	}{
		{"good", func(*Spec) {}, ""},
		{"zero optimizer", func(s *Spec) { s.Optimizer = Optimizer{} }, ""},
		{"largest", func(s *Spec) { s.Dim = MaxDim }, ""},
		{"no name", func(s *Spec) { s.Name = "" }, "without a name"},
		{"longest name", func(s *Spec) { s.Name = strings.Repeat("x", MaxName) }, ""},
		{"long name", func(s *Spec) { s.Name = strings.Repeat("x", MaxName+1) }, "256 bytes, at most 255"},
		{"dim 0", func(s *Spec) { s.Dim = 0 }, "dim 0"},
		{"dim large", func(s *Spec) { s.Dim = MaxDim + 1 }, "dim 4097, must be 1 to 4096"},
		{"init kind", func(s *Spec) { s.Init.Kind = "xavier" }, `"xavier"`},
		{"init scale", func(s *Spec) { s.Init.Scale = nan }, "NaN"},
		{"init negative", func(s *Spec) { s.Init.Scale = -1 }, "-1"},
		{"prefix", func(s *Spec) { s.Init.ZeroPrefix = 9 }, "zero_prefix 9"},
		{"prefix negative", func(s *Spec) { s.Init.ZeroPrefix = -1 }, "zero_prefix -1"},
		{"kind", func(s *Spec) { s.Optimizer.Kind = "adamw" }, `"adamw"`},
		{"lr", func(s *Spec) { s.Optimizer.LR = -0.1 }, "lr -0.1"},
		{"lr inf", func(s *Spec) { s.Optimizer.LR = inf }, "Inf"},
		{"l1 not ftrl", func(s *Spec) { s.Optimizer.L1 = 1 }, "only ftrl"},
		{"l1 ftrl", func(s *Spec) { s.Optimizer = Optimizer{Kind: FTRL, L1: 1} }, ""},
		{"sum", func(s *Spec) { s.Optimizer = Optimizer{Kind: Sum} }, ""},
		{"sum lr", func(s *Spec) { s.Optimizer = Optimizer{Kind: Sum, LR: 1} }, "sum takes no lr"},
		{"assign", func(s *Spec) { s.Optimizer = Optimizer{Kind: Assign} }, ""},
		{"user", func(s *Spec) { s.Optimizer = Optimizer{Kind: User, Library: "x.so", Params: "a=1", State: 8} }, ""},
		{"user without library", func(s *Spec) { s.Optimizer = Optimizer{Kind: User} }, "without a library"},
		{"user lr", func(s *Spec) { s.Optimizer = Optimizer{Kind: User, Library: "x.so", LR: 1} }, "put them into params"},
		{"user state", func(s *Spec) { s.Optimizer = Optimizer{Kind: User, Library: "x.so", State: MaxState + 1} }, "16385 floats"},
		{"library not user", func(s *Spec) { s.Optimizer.Library = "x.so" }, "for user only"},
		{"beta1", func(s *Spec) { s.Optimizer = Optimizer{Kind: Adam, Beta1: 1} }, "below 1"},
	} {
		s := good()
		c.edit(&s)
		err := s.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
}

func TestDefaultsAreStable(t *testing.T) {
	for kind := range defaultLR {
		once := Optimizer{Kind: kind}.WithDefaults()
		if once.LR == 0 || once != once.WithDefaults() {
			t.Errorf("%s: defaults %+v, then %+v", kind, once, once.WithDefaults())
		}
		kept := Optimizer{Kind: kind, LR: 7, Eps: 3}.WithDefaults()
		if kept.LR != 7 || kept.Eps != 3 {
			t.Errorf("%s: a given value was replaced: %+v", kind, kept)
		}
	}
}

func TestRowBytes(t *testing.T) {
	for kind, want := range map[string]int{SGD: 5, AdaGrad: 10, RowAdaGrad: 6, Adam: 17, FTRL: 15, Sum: 5, Assign: 5, User: 5, "": 10} {
		if got := (Spec{Dim: 5, Optimizer: Optimizer{Kind: kind}}).RowBytes(); got != 4*want {
			t.Errorf("%q: %d bytes, want %d", kind, got, 4*want)
		}
	}
}

// TestDigestIsASum holds Add to big integers, carries included.
func TestDigestIsASum(t *testing.T) {
	modulus := new(big.Int).Lsh(big.NewInt(1), 256)
	toBig := func(d Digest) *big.Int {
		b := slices.Clone(d[:])
		slices.Reverse(b)
		return new(big.Int).SetBytes(b)
	}
	var sum Digest
	want := new(big.Int)
	var ones Digest
	for i := range ones {
		ones[i] = 0xff
	}
	terms := []Digest{ones, ones, {1}}
	for i := range 200 {
		terms = append(terms, Digest(sha256.Sum256([]byte{byte(i)})))
	}
	for i, d := range terms {
		sum.Add(d)
		want.Add(want, toBig(d)).Mod(want, modulus)
		if toBig(sum).Cmp(want) != 0 {
			t.Fatalf("after term %d: %v, want %x", i, sum, want)
		}
	}
}

// TestRowHashFormat pins what is hashed: a changed format would make every
// stored digest wrong.
func TestRowHashFormat(t *testing.T) {
	var h RowHasher
	for range 2 { // the hasher is reused
		want := Digest(sha256.Sum256([]byte{4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 0xaa, 0xbb}))
		if got := h.Hash(0x01020304, 0x0102030405060708, []byte{0xaa, 0xbb}); got != want {
			t.Fatalf("hash %v, want %v", got, want)
		}
	}
	row := []byte{1}
	if n := testing.AllocsPerRun(100, func() { h.Hash(1, 2, row) }); n != 0 {
		t.Errorf("%v allocations a row", n)
	}
}
