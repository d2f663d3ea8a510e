package hbm

import (
	"slices"
	"testing"

	"psrt/bench/report"
)

// TestBars: each bar is judged by its own row, and only where the run is the one meant.
func TestBars(t *testing.T) {
	rows := []report.Row{{Op: "gather", Ratio: .1}, {Op: "find and gather", Ratio: .7}, {Op: "fill", Ratio: .899}, {Op: "update, adagrad", Ratio: .71}, {Op: "step, 10 % ahead", Ratio: .95}, {Op: "step, 4 cards", Ratio: 2}}
	want := []string{
		"bar: find and gather: 0.700 of its limit, wanted 0.700: met",
		"bar: fill: 0.899 of its limit, wanted 0.900: short",
		"bar: update, adagrad: 0.710 of its limit, wanted 0.700: met",
		"bar: step, 10 % ahead: 0.950 of its limit, wanted 0.952: short",
	}
	if got := bars(&Config{Rows: 1 << 20, Dim: 64}, rows); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := bars(&Config{Rows: 1000, Dim: 64}, rows); len(got) != len(want)+1 {
		t.Errorf("of another run %q is said", got)
	}
}
