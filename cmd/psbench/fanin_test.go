package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"psrt/bench/report"
	"psrt/rdma/feature"
)

// TestFanIn: over loopback, and over whatever RDMA device there is.
func TestFanIn(t *testing.T) {
	for _, transport := range []string{"tcp", "verbs"} {
		code, out, errs := psbench(t, "fanin", "--transport", transport, "--link", "none", "--workers", "1,2", "--bytes", "64K", "--duration", "300ms", "--json")
		if transport == "verbs" && feature.NewProber("").Check(feature.RDMADevice) != nil && os.Getenv("PSRT_LAB") != "rxe" {
			if code != 2 || !strings.Contains(errs, "no RDMA device") {
				t.Errorf("over verbs without a device: exit %d, %s", code, errs)
			}
			continue
		}
		var r report.Report
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("over %s: exit %d, %v\n%s", transport, code, err, errs)
		}
		var got []string
		for _, row := range r.Rows {
			got = append(got, row.Op)
			if f := row.FanIn; f == nil || !(row.Limit > 0 && row.Bandwidth.Avg > 0 && f.PullP99 > 0) || row.Iterations == 0 || (f.Mode == "granted") != (f.Bound > 0) {
				t.Errorf("over %s: %+v %+v", transport, row, row.FanIn)
			}
		}
		const want = "granted, 1 workers; blast, 1 workers; granted, 2 workers; blast, 2 workers"
		if strings.Join(got, "; ") != want || r.Suite != "fanin" || r.Transport != transport || r.Commit == "" {
			t.Errorf("over %s: %s of %s with the rows %v", transport, r.Suite, r.Transport, got)
		}
	}
}

func TestFanInBadUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--rate 1foo", "500mbit"},
		{"--rate 0", "not a rate"},
		{"--workers 0", "0 workers"},
		{"--workers 1,x", "x"},
		{"--workers 64 --bytes 8M", "faster link"},
		{"--mode grant", "granted, blast, both"},
		{"--bytes 1K", "pushes of 1024 bytes"},
		{"--depth 99", "99 pushes"},
		{"--transport shm", "tcp, verbs"},
		{"--link wire", "veth, none"},
		{"more", "no argument"},
	} {
		code, _, errs := psbench(t, append([]string{"fanin"}, strings.Fields(c.args)...)...)
		if code != 2 || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("fanin %s: exit %d, %q, want 2 and %q on one line", c.args, code, errs, c.says)
		}
	}
}

func TestBits(t *testing.T) {
	for _, c := range []struct {
		in   string
		want bits
		out  string
	}{{"1gbit", 1e9, "1gbit"}, {"2.5Gbit", 2.5e9, "2.5gbit"}, {"500mbit", 5e8, "500mbit"}, {"64kbit", 64e3, "64kbit"}, {"999", 999, "999bit"}, {"10g", 1e10, "10gbit"}} {
		var b bits
		if err := b.Set(c.in); err != nil || b != c.want || b.String() != c.out {
			t.Errorf("%s is %d, shown as %s, %v; want %d, %s", c.in, b, b.String(), err, c.want, c.out)
		}
	}
	for _, in := range []string{"", "x", "-1gbit", "0", "1e30", "nan", "1 foo"} {
		var b bits
		if err := b.Set(in); err == nil {
			t.Errorf("%q is %d", in, b)
		}
	}
}
