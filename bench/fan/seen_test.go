package fan

import (
	"math"
	"strings"
	"testing"

	"psrt/sched/psmsg"
)

func TestSeen(t *testing.T) {
	view := func(bytes ...uint64) *psmsg.ViewStats {
		v := &psmsg.ViewStats{Meter: "a fake", Workers: []psmsg.ViewedWorker{{Worker: -1, Bytes: 77}}}
		for i, b := range bytes {
			v.Workers = append(v.Workers, psmsg.ViewedWorker{Worker: i, Bytes: b, Hot: i == 1, Straggler: i == 2})
		}
		return v
	}
	var s, sum Seen
	// The third worker is none of those that push; the second has 2 % of the
	// first's put down to it.
	s.between(view(100, 100, 5), view(100+1029, 100+1071, 50), []int64{1000, 1000})
	s.name(view(0, 0, 0), 2)
	sum.plus(&s)
	sum.plus(&s)
	if all, one := sum.off(); math.Abs(all-5) > 1e-9 || math.Abs(one-2) > 1e-9 {
		t.Errorf("%g %% in all, %g %% for one, want 5 and 2: %+v", all, one, sum)
	}
	text := sum.String()
	for _, want := range []string{"a fake", "+5.00 %", "2.00 %", "hot: [1]"} {
		if !strings.Contains(text, want) || strings.Contains(text, "stragglers") {
			t.Errorf("no %q in %s", want, text)
		}
	}
	var none Seen
	if all, one := none.off(); all != 0 || one != 0 || none.String() != "" {
		t.Errorf("of nothing: %g, %g, %q", all, one, none.String())
	}
}
