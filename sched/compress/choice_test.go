package compress

import (
	"math"
	"strings"
	"testing"
)

// What String says Parse reads, and nothing else; Flag names what was asked for.
func TestChoice(t *testing.T) {
	for _, c := range []struct {
		choice     Choice
		text, flag string
	}{
		{Choice{}, "none", "--compress none"},
		{Choice{Auto: true}, "auto", "--compress auto"},
		{Choice{Code: Half}, "fp16", "--compress fp16"},
		{Choice{Code: Top, Share: 1}, "topk:1", "--compress topk:1"},
		{Choice{Code: Top, Share: .25, Warm: 3}, "topk:0.25:3", "--compress topk:0.25:3"},
		{Choice{Merge: 2}, "none", "--merge-pushes 2"},
		{Choice{Code: Byte, Merge: 4, MergeAuto: true}, "int8", "--compress int8 --merge-pushes auto"},
	} {
		if err := c.choice.Check(); err != nil || c.choice.String() != c.text || c.choice.Flag() != c.flag {
			t.Errorf("%+v: %v, %q, %q", c.choice, err, c.choice, c.choice.Flag())
		}
		want := c.choice
		want.Merge, want.MergeAuto = 0, false
		if got, err := Parse(c.text); err != nil || got != want {
			t.Errorf("%s is %+v: %v", c.text, got, err)
		}
	}
	if got, err := Parse(""); err != nil || got.On() {
		t.Errorf("nothing is %+v: %v", got, err)
	}
	for _, text := range []string{"fp8", "int8 ", "topk", "topk:", "topk:-1", "topk:0", "topk:1.1", "topk:NaN", "topk:0_0.5", "topk:0x1p-2", "topk:.5:", "topk:.5:1.5", "topk:.5:-1", "topk:.5:1001", "topk:.5:1:1", "fp16:2"} {
		if c, err := Parse(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is %+v: %v", text, c, err)
		}
	}
	for _, c := range []Choice{{Code: 9}, {Code: Half, Auto: true}, {Code: Top}, {Warm: 1}, {Code: Half, Share: .5}, {Merge: 9}, {Merge: -1}, {MergeAuto: true}, {Code: Top, Share: .5, Merge: 2}, {Auto: true, Merge: 2, MergeAuto: true}} {
		if c.Check() == nil {
			t.Errorf("%+v passes", c)
		}
	}
}

// The share falls from all to what was asked for by the same factor in each pass.
func TestShareFalls(t *testing.T) {
	c := Choice{Code: Top, Share: .125, Warm: 3}
	for pass, want := range []float64{1, .5, .25, .125, .125} {
		if got := c.ShareIn(pass); math.Abs(got-want) > 1e-12 {
			t.Errorf("pass %d: %v, want %v", pass, got, want)
		}
	}
	if got := (Choice{Code: Top, Share: .125}).ShareIn(0); got != .125 {
		t.Errorf("at once: %v", got)
	}
}
