package densemap

import "testing"

func TestCutCoversOnce(t *testing.T) {
	ranges := []Range{{0, 1, "grad"}, {1, 100_000, "grad"}, {100_001, 7, "ema"}, {100_008, 16384, "grad"}}
	blocks, err := Cut(ranges)
	if err != nil {
		t.Fatal(err)
	}
	rule := make([]string, Total(ranges))
	for i, b := range blocks {
		if b.Index != i || b.Len <= 0 || b.Len > BlockFloats {
			t.Fatalf("block %d: %+v", i, b)
		}
		for j := b.Offset; j < b.Offset+b.Len; j++ {
			if rule[j] != "" {
				t.Fatalf("element %d is in two blocks", j)
			}
			rule[j] = b.Rule
		}
	}
	for _, r := range ranges {
		for j := r.Offset; j < r.Offset+r.Len; j++ {
			if rule[j] != r.Rule {
				t.Fatalf("element %d has rule %q, want %q", j, rule[j], r.Rule)
			}
		}
	}
}

func TestCutRefuses(t *testing.T) {
	for name, ranges := range map[string][]Range{
		"gap":   {{0, 5, "grad"}, {6, 5, "grad"}},
		"empty": {{0, 0, "grad"}},
		"rule":  {{0, 5, "adam"}},
	} {
		if _, err := Cut(ranges); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
