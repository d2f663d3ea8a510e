package qualify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"psrt/bench/report"
)

// invented is a finding of n ranks, perHost on a host, as a director has it.
func invented(n, perHost int, value func(from, to int) (latency, gbs float64)) *Finding {
	members := make([]*member, n)
	for r := range members {
		host := fmt.Sprintf("node%d", r/perHost)
		members[r] = &member{rank: r, greeting: greeting{Rank: r, World: n, Listen: fmt.Sprintf("10.0.0.%d:7", r/perHost), Facts: Facts{Host: host, Key: host, PID: 100 + r, CPUs: 8, Kernel: "6.1", Interface: "eth0", MTU: 1500}}}
		members[r].ctx, members[r].lose = context.WithCancelCause(context.Background())
	}
	plan := quick()
	plan.Sizes = []int{1 << 20}
	f := newFinding(&plan, members)
	for from := range n {
		for to := range n {
			if from == to {
				continue
			}
			us, gbs := value(from, to)
			f.take(from, to, &Outcome{Transport: "tcp", Reason: "tcp: the peer is on another host", NUMANode: -1, PingPongs: 10,
				Latency: report.Latency{Min: us, Typical: us, Avg: us, P99: us, P999: us},
				Writes:  []Written{{Bytes: 1 << 20, Iterations: 100, Took: time.Duration(float64(100<<20) / gbs)}}}, nil)
		}
	}
	return f
}

func usual(from, to int) (float64, float64) {
	j := 1 + 0.01*float64((from*7+to*3)%5)
	return 20 * j, 10 / j
}

// forms writes the report in all forms and reads it back.
func forms(t *testing.T, f *Finding) (r *report.Report, text, page string) {
	t.Helper()
	f.judge()
	f.close()
	r = f.Report("auto")
	var object, table, html, plain bytes.Buffer
	for _, err := range []error{r.JSON(&object), r.CSV(&table), r.HTML(&html), r.Text(&plain)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(table.String(), "\n"); n != len(r.Rows)+1 {
		t.Errorf("the CSV has %d lines for %d rows", n, len(r.Rows))
	}
	back, err := report.Read(&object)
	r.Time = back.Time // without the monotonic clock
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("the report comes back different: %v", err)
	}
	if html.Len() > 4<<20 {
		t.Errorf("the page has %d bytes", html.Len())
	}
	for _, bad := range []string{"<script", "://", "NaN"} {
		if strings.Contains(html.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	return r, plain.String(), html.String()
}

func has(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in\n%s", w, text)
		}
	}
}

func TestReportOfFew(t *testing.T) {
	f := invented(6, 1, func(from, to int) (float64, float64) {
		us, gbs := usual(from, to)
		if from == 2 {
			gbs /= 5
		}
		return us, gbs
	})
	f.take(0, 5, nil, errors.New("dial: 10.0.0.5:7: open control connection: i/o timeout"))
	f.take(4, 5, nil, errors.New("rdma: write to rank 5: retry exceeded: verbs"))
	f.members[0].Facts.Warnings = []string{"load average 3.0 on 2 CPUs: something else is running"}
	f.take(5, 3, nil, errors.New("dial: no transport: --transport verbs is not possible: rxe0: port 1 is DOWN"))
	f.take(5, 4, nil, errors.New("qualify: the checksum is 1 here"))
	f.Total = &Total{Slot: 1 << 20, Ranks: 6, Bytes: 6e9, Took: time.Second, Least: 0.5, Most: 2, Worst: 3}
	r, text, page := forms(t, f)
	has(t, text, "# node1 node2 node3 node4 node5: rank 1-5, 8 CPUs, Linux 6.1, eth0 mtu 1500; tcp: the peer is on another host", "# node0: rank 0, 8 CPUs", "WARNING: load average 3.0", "have the device up",
		"BLAME: host node2: write of 1 MiB is slow with most others, from it", "UNREACHABLE: rank 0 (node0) cannot reach rank 5 (node5): dial", "`ip route get 10.0.0.5`",
		"--traffic-class", "error counters", "OUTLIER: rank 2 (node2) to rank 3 (node3): write of 1 MiB", "5.00 times worse", "6.00 GB/s in total, 0.500 to 2.00 GB/s a rank (least: rank 3 (node3))",
		"6 ranks on 6 hosts, 30 ordered pairs", "4 pairs NOT measured, outliers among 5 pairs")
	if f.Unreachable() != 4 || f.Outliers() != 5 || len(r.Fabric.Blamed) != 1 || len(r.Rows) != 52 {
		t.Errorf("%d unreachable, %d outliers, %+v, %d rows", f.Unreachable(), f.Outliers(), r.Fabric.Blamed, len(r.Rows))
	}
	if strings.Count(page, "<svg") != 2 || strings.Count(page, `fill="none"`) != 5 || strings.Count(page, `fill="#222222"`) != 8 {
		t.Errorf("the page has %d squares, %d frames, %d dark places", strings.Count(page, "<svg"), strings.Count(page, `fill="none"`), strings.Count(page, `fill="#222222"`))
	}
}

// A host that nobody reaches is named as one.
func TestReportOfAHostApart(t *testing.T) {
	f := invented(8, 2, usual)
	for r := range 8 {
		if r/2 != 3 {
			for _, x := range []int{6, 7} {
				f.take(r, x, nil, errors.New("open control connection: no route to host"))
			}
		}
	}
	_, text, _ := forms(t, f)
	has(t, text, "BLAME: host node3: no way with most others, to it", "BLAME: rank 6 (node3): no way", "12 pairs NOT measured")
}

// Ranks that were lost are told of once, not for each of their pairs.
func TestReportOfLostRanks(t *testing.T) {
	f := invented(5, 1, usual)
	lost := &lostError{4, "rank 4 (node4, pid 104) is gone"}
	f.members[4].lose(lost)
	f.members[4].explain("rank 4 was killed (signal 9)")
	for r := range 4 {
		f.take(r, 4, nil, lost)
		f.take(4, r, nil, lost)
	}
	r, text, _ := forms(t, f)
	has(t, text, "LOST: rank 4 on node4: rank 4 was killed (signal 9)", "4 ranks (1 more lost) on 4 hosts", "8 pairs NOT measured")
	if len(r.Fabric.Unreachable) != 0 || len(r.Fabric.Blamed) != 0 {
		t.Errorf("%+v %+v", r.Fabric.Unreachable, r.Fabric.Blamed)
	}
}

// Many ranks are shown by host, or by the worst, and stay small.
func TestReportOfMany(t *testing.T) {
	slow := func(from, to int) (float64, float64) {
		us, gbs := usual(from, to)
		if from == 17 && to == 30 {
			us *= 9
		}
		return us, gbs
	}
	_, text, _ := forms(t, invented(40, 5, slow))
	has(t, text, "the median of pairs from host", "the 10 worst:\n  rank 17 (node3) to rank 30 (node6): 18", "node3", "!")
	_, text, _ = forms(t, invented(40, 1, slow))
	has(t, text, "the 10 worst:", "rank 17 (node17) to rank 30 (node30)", "and 32 more: rank 0-39")
	f := invented(MaxRanks, 1, slow)
	f.judge()
	f.close()
	r := f.Report("auto")
	var plain, page bytes.Buffer
	if err := errors.Join(r.Text(&plain), r.HTML(&page)); err != nil {
		t.Fatal(err)
	}
	has(t, plain.String(), "256 ranks on 256 hosts, 65280 ordered pairs", "outliers among 1 pair")
	one, err := json.Marshal(r.Rows[0])
	if plain.Len() > 8<<10 || page.Len() > 1<<20 || err != nil || len(one)*len(r.Rows) > 100<<20 {
		t.Errorf("the text has %d bytes, the page %d, the JSON %d, %v", plain.Len(), page.Len(), len(one)*len(r.Rows), err)
	}
}

// The better of two measurements counts, and a way that fails the second time
// is not reached.
func TestTake(t *testing.T) {
	f := invented(3, 1, usual)
	better := *f.cell(0, 1).out
	better.Latency.Typical, better.Writes = 5, []Written{{Bytes: 1 << 20, Iterations: 1, Took: time.Hour}}
	was := f.cell(0, 1).out.Writes[0].GBs()
	f.take(0, 1, &better, nil)
	if o := f.cell(0, 1).out; o.Latency.Typical != 5 || o.Writes[0].GBs() != was {
		t.Errorf("%+v", o)
	}
	f.take(0, 1, nil, errors.New("no"))
	if f.reached(0, 1) || !f.reached(1, 0) {
		t.Error("a way that failed is reached")
	}
	if p := f.failures(1); len(p) != 1 || p[0] != (Pair{0, 1}) || f.failures(0) != nil {
		t.Errorf("failures %v", p)
	}
	f.take(0, 1, &better, nil)
	_, text, _ := forms(t, f)
	has(t, text, "UNSTEADY: rank 0 (node0) to rank 1 (node1) failed, and worked when it was tried again: no; both ranks run", "outliers among 1 pair")
	if !f.reached(0, 1) || f.failures(1) != nil || f.Outliers() != 1 {
		t.Errorf("a way that works after all: %v, %d outliers", f.failures(1), f.Outliers())
	}
}

// A pair that had to take another transport than its like is one that is not as
// it should be, however fast.
func TestReportOfAnOddPair(t *testing.T) {
	f := invented(4, 1, usual)
	o := f.cell(3, 1).out
	o.Transport, o.Reason = "shm", "shm: tcp could not be set up"
	r, text, _ := forms(t, f)
	has(t, text, "ODD: rank 3 (node3) to rank 1 (node1) goes by shm, where most like it go by tcp: shm: tcp could not be set up", "outliers among 1 pair")
	if f.Outliers() != 1 || len(r.Fabric.Odd) != 1 {
		t.Errorf("%d outliers, %+v", f.Outliers(), r.Fabric.Odd)
	}
}

// Hosts of one name are told apart by their kernel, and limits follow from what
// they have.
func TestHosts(t *testing.T) {
	members := make([]*member, 5)
	for r, key := range []string{"a", "b", "a", "c"} {
		members[r] = &member{rank: r, greeting: greeting{Facts: Facts{Host: "same", Key: key, CPUs: 1 + 3*r, Devices: make([]string, r)}}}
		members[r].ctx, members[r].lose = context.WithCancelCause(context.Background())
	}
	plan := quick()
	f := newFinding(&plan, members)
	if fmt.Sprint(f.hostOf) != "[0 1 0 2 3]" || f.hosts[0].name != "same" || f.hosts[1].name != "same#2" || f.hosts[2].name != "same#3" || f.here() != 4 {
		t.Errorf("%v %+v", f.hostOf, f.hosts)
	}
	if got := fmt.Sprint(f.limits(0)); got != "[{2 1} {4 1} {10 3} {2 1}]" {
		t.Error(got)
	}
	if got := fmt.Sprint(f.limits(2)); got != "[{2 2} {4 2} {10 2} {2 2}]" {
		t.Error(got)
	}
}
