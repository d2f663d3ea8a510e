package report

import (
	"bytes"
	"strings"
	"testing"
)

// pairsOf is a report of n ranks of one host, both kinds of rows.
func pairsOf(n int) *Report {
	r := &Report{Version: Version, Suite: "qualify", Transport: "auto", Fabric: &Fabric{
		Hosts: []FabricHost{{Name: "h"}},
		Kinds: []FabricKind{{Figure: "latency of 8 B", Bytes: 8, Latency: true, SameHost: true}, {Figure: "write of 4 KiB", Bytes: 4096, SameHost: true}},
	}}
	for from := range n {
		r.Fabric.Ranks = append(r.Fabric.Ranks, FabricRank{Rank: from})
		r.Fabric.Hosts[0].Ranks = append(r.Fabric.Hosts[0].Ranks, from)
		for to := range n {
			if from != to {
				name := string(rune('a'+from)) + string(rune('a'+to))
				r.Rows = append(r.Rows, Row{Op: "latency " + name, Bytes: 8, Latency: &Latency{Typical: 2}, Limit: 2, Pair: &Pair{From: from, To: to}},
					Row{Op: "write " + name, Bytes: 4096, Bandwidth: &Bandwidth{Avg: 3}, Limit: 3, Pair: &Pair{From: from, To: to}})
			}
		}
	}
	return r
}

// Rows of both kinds are compared each in its own unit, and of many only those
// are shown that are slower.
func TestComparePairs(t *testing.T) {
	for _, n := range []int{2, 9} {
		old, now := pairsOf(n), pairsOf(n)
		now.Rows[0].Latency.Typical, now.Rows[1].Bandwidth.Avg, now.Rows[2].Latency.Typical = 4, 1, 1
		c, err := Compare(old, now, 0.1)
		if err != nil || c.Slower() != 2 || c.Unit != "" || c.Changes[0].Unit != "us" || c.Changes[1].Unit != "GB/s" || c.Changes[0].Speed != 0.5 {
			t.Fatalf("%d ranks: %+v, %v", n, c, err)
		}
		var text bytes.Buffer
		if err := c.Text(&text); err != nil {
			t.Fatal(err)
		}
		want := 1 + len(c.Changes) + 1
		if n == 9 {
			want = 4
		}
		if got := strings.Count(text.String(), "\n"); got != want || strings.Count(text.String(), "SLOWER") != 2 {
			t.Errorf("%d ranks: %d lines, want %d\n%s", n, got, want, text.String())
		}
	}
}

// Limits stand in the column of their own unit.
func TestPairColumns(t *testing.T) {
	var b bytes.Buffer
	if err := pairsOf(2).CSV(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	head := strings.Split(lines[0], ",")
	for i, want := range map[int]map[string]string{1: {"limit[us]": "2", "limit[GB/s]": "0", "t_typical[us]": "2", "avg[GB/s]": "0"}, 2: {"limit[us]": "0", "limit[GB/s]": "3", "avg[GB/s]": "3", "to": "1"}} {
		cells := strings.Split(lines[i], ",")
		for k, name := range head {
			if w, ok := want[name]; ok && cells[k] != w {
				t.Errorf("line %d: %s is %s, want %s", i, name, cells[k], w)
			}
		}
	}
}
