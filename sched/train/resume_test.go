package train

import (
	"encoding/json"
	"slices"
	"testing"

	"psrt/sched/combine"
	"psrt/sched/psmsg"
	"psrt/sched/tree"
)

// Pushes that a checkpoint has beyond its step are left out by a job of the same layout
// alone: who carries whom is part of that, for a carrier's push is its host's.
func TestLeadsOfTheLayout(t *testing.T) {
	carriers := func(hosts ...string) []int {
		shares, err := tree.Shares(8, len(hosts))
		if err != nil {
			t.Fatal(err)
		}
		top, err := tree.Top(shares)
		if err != nil {
			t.Fatal(err)
		}
		return carriersOf(combine.Groups(top, hosts))
	}
	apart, pairs := carriers("a", "b", "c", "d"), carriers("a", "a", "b", "b")
	if apart != nil || !slices.Equal(pairs, []int{0, 0, 2, 2}) {
		t.Fatalf("workers apart are carried by %v, pairs by %v", apart, pairs)
	}
	j := &Job{Servers: 2, Lanes: 1, Workers: 4, Sync: ASP}
	of := []psmsg.Lead{{Lane: 1, Table: EmbeddingID, Worker: 2, Steps: 3}}
	for _, c := range []struct {
		name     string
		was, now []int
		change   func(*Job)
		fit      bool
	}{
		{"each for itself", nil, apart, nil, true},
		{"the same hosts", pairs, pairs, nil, true},
		{"combined now", apart, pairs, nil, false},
		{"combined then", pairs, nil, nil, false},
		{"other hosts", pairs, carriers("a", "a", "a", "a"), nil, false},
		{"other servers", pairs, pairs, func(j *Job) { j.Servers = 1 }, false},
		{"in bsp", pairs, pairs, func(j *Job) { j.Sync = BSP }, false},
	} {
		b, err := json.Marshal(j.ahead([]psmsg.SaveReply{{Leads: of}}, c.was))
		if err != nil {
			t.Fatal(err)
		}
		var a ahead
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		now := *j
		if c.change != nil {
			c.change(&now)
		}
		leads, fit := a.leads(&now, c.now)
		if fit != c.fit || fit != slices.Equal(leads, of) {
			t.Errorf("%s: fit %v, leads %+v", c.name, fit, leads)
		}
	}
}
