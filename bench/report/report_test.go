package report

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files again")

func sample(suite string) *Report {
	r := &Report{
		Version: Version, Suite: suite, Transport: "shm", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Program: "v1.2.3", Commit: "0123456789abcdef", Seed: 42,
		Machine: Machine{Kernel: "6.1.0", CPU: "Some CPU @ 2 GHz", CPUs: 8, Device: "none", NUMANode: -1, Go: "go1.26"},
		Notes:   []string{"limit: of the sample", "not measured: anything"},
	}
	for i, n := range []int{64, 1 << 20} {
		row := Row{Op: "write", Bytes: n, Iterations: 1000 * (i + 1), Limit: 0.125, Ratio: 0.8, CPUSecondsPerGB: 0.25, Load: 1.5, Checksum: "0badcafe"}
		if suite == "lat" {
			row.Latency = &Latency{Min: 0.1, Typical: 0.15 * float64(1+i), Avg: 0.2, P99: 1.5, P999: 12.25}
		} else {
			row.Bandwidth = &Bandwidth{Avg: 10.5 / float64(1+i), Peak: 12, Rate: 0.001234}
			row.BulkLimit = 9.75 * float64(i)
			if i == 1 {
				row.Rival = &Rival{Name: "another", Value: 0.0425, Ratio: 0.97, Least: 0.5, Lower: 0.9, Upper: 1.02, Most: 1.5,
					Limit: 1.01, LimitLeast: 0.6, LimitMost: 1.1, Rounds: 9}
			}
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -rewrite, then read the diff):\n%s", path, got)
	}
}

func TestFormats(t *testing.T) {
	for _, suite := range []string{"lat", "bw"} {
		r := sample(suite)
		var text, table, object bytes.Buffer
		if err := r.Text(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, suite+".txt", text.Bytes())
		if err := r.CSV(&table); err != nil {
			t.Fatal(err)
		}
		golden(t, suite+".csv", table.Bytes())
		if lines, err := csv.NewReader(&table).ReadAll(); err != nil || len(lines) != 3 {
			t.Errorf("CSV has %d lines: %v", len(lines), err)
		}
		if err := r.JSON(&object); err != nil {
			t.Fatal(err)
		}
		golden(t, suite+".json", object.Bytes())
		back, err := Read(&object)
		if err != nil || !reflect.DeepEqual(back, r) {
			t.Errorf("%s comes back from JSON as %+v: %v", suite, back, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{"", "x", "[]", `{"version":2}`, `{"version":1,"rows":7}`} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q was taken for a report", text)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, suite := range []string{"lat", "bw"} {
		old, now := sample(suite), sample(suite)
		for _, c := range []struct {
			speed  float64
			slower int
		}{{1, 0}, {2, 0}, {0.95, 0}, {0.85, 1}, {0.1, 1}} {
			if suite == "lat" {
				now.Rows[0].Latency.Typical = old.Rows[0].Latency.Typical / c.speed
			} else {
				now.Rows[0].Bandwidth.Avg = old.Rows[0].Bandwidth.Avg * c.speed
			}
			got, err := Compare(old, now, 0.1)
			if err != nil {
				t.Fatal(err)
			}
			if s := got.Changes[0].Speed; got.Slower() != c.slower || s < c.speed*0.999 || s > c.speed*1.001 {
				t.Errorf("%s at speed %g: %+v", suite, c.speed, got)
			}
		}
		var text bytes.Buffer
		got, _ := Compare(old, now, 0.1)
		if err := got.Text(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, "compare-"+suite+".txt", text.Bytes())
	}
}

func TestCompareRefuses(t *testing.T) {
	lat := sample("lat")
	if _, err := Compare(lat, sample("bw"), 0.1); err == nil {
		t.Error("two suites were compared")
	}
	other := sample("lat")
	other.Rows = other.Rows[:1]
	other.Rows[0].Bytes = 7
	if _, err := Compare(other, lat, 0.1); err == nil {
		t.Error("reports without a common row were compared")
	}
	other = sample("lat")
	other.Rows[0].Latency.Typical = 0
	if _, err := Compare(other, lat, 0.1); err == nil {
		t.Error("a time of 0 was compared")
	}
	other = sample("lat")
	other.Rows = append(other.Rows, Row{Op: "gone", Bytes: 1})
	if c, err := Compare(other, lat, 0.1); err != nil || c.Missing != 1 {
		t.Errorf("a row that is gone: %+v, %v", c, err)
	}
}

// TestHistogram compares with sorting.
func TestHistogram(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PSRT_SEED"); s != "" {
		fmt.Sscan(s, &seed)
	}
	t.Logf("PSRT_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 2, 10, 1000, 20_000} {
		var h, half Histogram
		var all []time.Duration
		for i := range n {
			d := time.Duration(rng.Uint64() >> (1 + rng.IntN(63)))
			all = append(all, d)
			if i%2 == 0 {
				half.Record(d)
			} else {
				h.Record(d)
			}
		}
		h.Merge(&half)
		slices.Sort(all)
		if h.Count() != uint64(n) || h.Quantile(0) < all[0] || h.Quantile(1) != all[n-1] {
			t.Fatalf("%d samples: count %d, %s to %s, want %s to %s", n, h.Count(), h.Quantile(0), h.Quantile(1), all[0], all[n-1])
		}
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999} {
			want := all[min(max(int(q*float64(n)+0.999999), 1), n)-1]
			if got := h.Quantile(q); got < want || float64(got-want) > float64(want)/subBuckets+1 {
				t.Errorf("%d samples, quantile %g: %d, want %d", n, q, got, want)
			}
		}
	}
}

func TestBuckets(t *testing.T) {
	for i := range len((&Histogram{}).counts) {
		if got := bucket(upper(i)); got != i {
			t.Fatalf("the end %d of bucket %d is in bucket %d", upper(i), i, got)
		}
		if i > 0 && bucket(upper(i-1)+1) != i {
			t.Fatalf("bucket %d does not begin behind bucket %d", i, i-1)
		}
	}
}

// TestHTML: the page has every row, curves where sizes differ, refers to
// nothing elsewhere, and keeps text text.
func TestHTML(t *testing.T) {
	for suite, like := range map[string]string{"lat": "lat", "bw": "bw", "fanin": "bw"} {
		r := sample(like)
		r.Notes = append(r.Notes, "<script>")
		more := r.Rows[0]
		more.Bytes *= 2
		r.Rows = append(r.Rows, more)
		if suite == "fanin" {
			for i := range r.Rows {
				r.Rows[i].FanIn = &FanIn{Workers: 1 << i, Mode: "granted", Jain: 0.99, PullP99: 20, Bound: 30}
			}
		}
		var b bytes.Buffer
		if err := r.HTML(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if n := strings.Count(page, "<tr>"); n != len(r.Rows)+1 || strings.Count(page, "<svg") < 2 {
			t.Errorf("%s: %d lines for %d rows, %d curves", suite, n, len(r.Rows), strings.Count(page, "<svg"))
		}
		if strings.Contains(page, "<script") || strings.Contains(page, "://") {
			t.Errorf("%s: the page has a script or refers to the network", suite)
		}
	}
}
