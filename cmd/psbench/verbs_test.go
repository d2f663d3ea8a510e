package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"psrt/bench/ibperf"
	"psrt/bench/report"
	"psrt/rdma/feature"
)

// TestPerftest: both suites with the rival in turns, on whatever device there
// is.
func TestPerftest(t *testing.T) {
	feature.SkipUnless(t, feature.NewProber("").Check(feature.RDMADevice))
	if err := ibperf.Missing(); err != nil && os.Getenv("PSRT_LAB") == "" {
		if code, _, errs := psbench(t, "lat", "--transport", "verbs", "--perftest"); code != 2 || !strings.Contains(errs, "apt-get install perftest") {
			t.Errorf("without perftest: exit %d, %q", code, errs)
		}
		return
	}
	for suite, ops := range map[string]string{"lat": "write write-imm", "bw": "write read"} {
		code, out, errs := psbench(t, suite, "--transport", "verbs", "--perftest", "--rounds", "2", "--sizes", "64", "--iters", "100", "--json")
		var r report.Report
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("%s: exit %d, %v\n%s", suite, code, err, errs)
		}
		var got []string
		for _, row := range r.Rows {
			got = append(got, row.Op)
			v := row.Rival
			if v == nil || v.Rounds != 2 || !(v.Value > 0 && v.Least > 0 && v.Least <= v.Lower && v.Lower <= v.Ratio && v.Ratio <= v.Upper && v.Upper <= v.Most) ||
				!(v.LimitLeast > 0 && v.LimitLeast <= v.Limit && v.Limit <= v.LimitMost) || !(row.Limit > 0) || len(row.Checksum) != 8 {
				t.Errorf("%s of %s: %+v beside %+v", suite, row.Op, row, v)
			}
		}
		if strings.Join(got, " ") != ops {
			t.Errorf("%s has the rows %v, want %s", suite, got, ops)
		}
	}
}
