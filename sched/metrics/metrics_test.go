package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"psrt/sched/pipe"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
	"psrt/sched/usage"
)

// fakeServer answers with what it is made of.
type fakeServer struct {
	stats psmsg.StatsReply
	err   error
	flows []psmsg.FlowStats
}

func (f *fakeServer) StatsWithin(time.Duration) (psmsg.StatsReply, error) { return f.stats, f.err }
func (f *fakeServer) Flows() []psmsg.FlowStats                            { return f.flows }
func (f *fakeServer) Latencies() map[psmsg.Kind]usage.Counts {
	var h usage.Histogram
	h.Add(3 * time.Millisecond)
	h.Add(time.Hour)
	return map[psmsg.Kind]usage.Counts{psmsg.KindPull: h.Read()}
}

// crowded is a server with everything, and too much of it.
func crowded(workers, sources int) *fakeServer {
	f := &fakeServer{stats: psmsg.StatsReply{Tables: []psmsg.TableStats{{Name: "t", Rows: 7}}, View: &psmsg.ViewStats{Meter: "a fake", LeftOut: 3},
		FanIn: []psmsg.FanInStats{{Device: "eth0", Grants: 9}}, Lanes: []psmsg.LaneStats{{Lane: 0, Credits: 5}, {Lane: 1}}}}
	for w := range workers {
		f.flows = append(f.flows, psmsg.FlowStats{Worker: w, Table: "t", InBytes: 10, OutBytes: 20, Pulls: 1, Pushes: 2})
		f.stats.View.Workers = append(f.stats.View.Workers, psmsg.ViewedWorker{Worker: w, Bytes: 11, Hot: w == workers-1})
		for i := range f.stats.Lanes {
			f.stats.Lanes[i].Clocks = append(f.stats.Lanes[i].Clocks, int64(100+w-i))
		}
	}
	for i := range sources {
		for port := range 2 {
			f.stats.View.Sources = append(f.stats.View.Sources, psmsg.ViewedSource{Worker: 0, Peer: fmt.Sprintf("10.0.%d.%d:%d", i/256, i%256, 1000+port), Interface: "eth0", Bytes: 1})
		}
	}
	return f
}

func gathered(t *testing.T, f []*dto.MetricFamily, name string) []*dto.Metric {
	t.Helper()
	for _, m := range f {
		if m.GetName() == name {
			return m.Metric
		}
	}
	t.Errorf("no %s", name)
	return nil
}

func total(ms []*dto.Metric) (sum float64) {
	for _, m := range ms {
		sum += m.Counter.GetValue() + m.Gauge.GetValue()
	}
	return sum
}

func serverRank(t *testing.T, s Server) []*dto.MetricFamily {
	t.Helper()
	r := NewRank()
	r.Name("server 0")
	r.Server(s)
	f, err := r.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// However many workers and sources there are, the series are bounded, and no
// byte is missing from the sums.
func TestCardinalityIsBounded(t *testing.T) {
	const workers, sources = 1000, 2000
	all := serverRank(t, crowded(workers, sources))
	for name, want := range map[string]struct {
		series int
		sum    float64
	}{
		"psrt_server_received_bytes_total": {MaxWorkers + 1, 10 * workers},
		"psrt_server_sent_bytes_total":     {MaxWorkers + 1, 20 * workers},
		"psrt_server_requests_total":       {2 * (MaxWorkers + 1), 3 * workers},
		"psrt_view_received_bytes_total":   {MaxWorkers + 1, 11 * workers},
		"psrt_view_hot":                    {MaxWorkers + 1, 1},
		"psrt_view_source_bytes_total":     {MaxSources, 2 * MaxSources},
		"psrt_view_sources_left_out":       {1, 3 + 2*(sources-MaxSources)},
		"psrt_server_clock":                {MaxWorkers + 1, (99 + 99 + MaxWorkers) * (MaxWorkers + 1) / 2},
		"psrt_lane_credits":                {2, 5},
		"psrt_fanin_grants_total":          {1, 9},
	} {
		ms := gathered(t, all, name)
		if len(ms) != want.series || total(ms) != want.sum {
			t.Errorf("%s: %d series with %g in all, want %d with %g", name, len(ms), total(ms), want.series, want.sum)
		}
	}
	n := 0
	for _, f := range all {
		n += len(f.Metric)
	}
	if most := MaxWorkers*(1+4+6+1) + MaxSources + 200; n > most {
		t.Errorf("%d series, want at most %d", n, most)
	}
	h := gathered(t, all, "psrt_server_request_seconds")[0].Histogram
	last := h.Bucket[len(h.Bucket)-1]
	if h.GetSampleCount() != 2 || last.GetCumulativeCount() != 1 || h.GetSampleSum() < 3600 {
		t.Errorf("an hour is in a bucket that ends: %v", h)
	}
}

// A busy lane hides what only it knows, and nothing else.
func TestBusyLane(t *testing.T) {
	s := crowded(2, 0)
	s.err = errors.New("busy")
	all := serverRank(t, s)
	if total(gathered(t, all, "psrt_server_up")) != 0 || total(gathered(t, all, "psrt_server_received_bytes_total")) != 20 {
		t.Error("flows are not there, or the server is up")
	}
	for _, f := range all {
		if f.GetName() == "psrt_server_rows" {
			t.Error("rows of some of the lanes")
		}
	}
}

func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct{ addr, want string }{
		{taken.Addr().String(), "another process listens there"},
		{"nonsense", "want HOST:PORT"},
		{"127.0.0.1:http-nonsense", "want HOST:PORT"},
		{"127.0.0.1:70000", "want HOST:PORT"},
		{"192.0.2.1:9090", "does not have that address"},
		{"unix:" + filepath.Join(t.TempDir(), "no", "such"), "cannot listen"},
	} {
		e, err := Listen(c.addr)
		var bad *AddressError
		if !errors.As(err, &bad) || !bad.BadInput() || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.addr) {
			t.Errorf("%s: %v, %v; want %q", c.addr, e, err, c.want)
		}
	}
}

func serve(t *testing.T, addr string, r *Rank) *Endpoint {
	t.Helper()
	e, err := Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	e.Serve(r.Gatherer())
	return e
}

// Strangers who open connections and ask for nothing, or send garbage, keep nobody from the
// metrics, nor more than maxWaiting descriptors.
func TestStrangersAtTheEndpoint(t *testing.T) {
	e, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.header = time.Hour // that their time is over closes none of them
	e.Serve(NewRank().Gatherer())
	defer e.Close()
	var silent []net.Conn
	for i := range 2 * maxWaiting {
		c, err := net.Dial("tcp", e.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 1 {
			_, err = c.Write([]byte("GET /met")) // the rest never comes
		}
		if silent = append(silent, c); err != nil {
			t.Fatal(err)
		}
	}
	garbage, err := net.Dial("tcp", e.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer garbage.Close()
	if _, err := garbage.Write([]byte("\x16\x03\x01 nothing that anybody speaks\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(garbage); err != nil || !strings.Contains(string(b), "400") {
		t.Errorf("garbage: %q, %v", b, err)
	}
	res, err := http.Get("http://" + e.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("status %d, %v", res.StatusCode, err)
	}
	// The oldest was closed when the others came.
	if err := silent[0].SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := silent[0].Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest silent one is still there: %d, %v", n, err)
	}
}

// A request that says that it has a body, which never comes, is answered and holds nothing.
func TestBodyAtTheEndpoint(t *testing.T) {
	e := serve(t, "127.0.0.1:0", NewRank())
	defer e.Close()
	for _, says := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
		c, err := net.Dial("tcp", e.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", says); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), "413") {
			t.Errorf("%s: %q, %v", says, b, err)
		}
	}
}

// A job's endpoint shows all ranks, says how many it misses, and waits for none.
func TestJob(t *testing.T) {
	dir := t.TempDir()
	var sockets []string
	for i := range 4 {
		sockets = append(sockets, filepath.Join(dir, fmt.Sprint(i)))
	}
	for i := range 2 {
		r := NewRank()
		r.Name(fmt.Sprintf("server %d", i))
		r.Server(crowded(3, 1))
		defer serve(t, "unix:"+sockets[i], r).Close()
	}
	// The third accepts and says nothing; the fourth is not there.
	mute, err := net.Listen("unix", sockets[2])
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	own := NewRank()
	own.Name("launcher")
	e, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.Serve(NewJob(own, sockets))
	// A rank that has no core for a second is missing from a scrape, rightly.
	var lacks []string
	for range 20 {
		start := time.Now()
		resp, err := http.Get("http://" + e.Addr() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if took := time.Since(start); err != nil || resp.StatusCode != 200 || took > 60*rankWithin {
			t.Errorf("status %d after %v: %v", resp.StatusCode, took, err)
		}
		lacks = nil
		for _, want := range []string{`psrt_ranks_missing{rank="launcher"} 2`, `psrt_server_rows{rank="server 0",table="t"} 7`, `psrt_server_rows{rank="server 1",table="t"} 7`,
			`psrt_server_requests_total{kind="push",rank="server 1",table="t",worker="2"} 2`, `go_goroutines{rank="server 0"}`, `process_open_fds{rank="launcher"}`} {
			if !strings.Contains(string(text), want) {
				lacks = append(lacks, want)
			}
		}
		if len(lacks) == 0 {
			break
		}
	}
	if len(lacks) > 0 {
		t.Errorf("no %q", lacks)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", e.Addr()); err == nil {
		c.Close()
		t.Error("a closed endpoint listens on")
	}
}

func TestNothingToServe(t *testing.T) {
	var r *Rank
	r.Name("nobody")
	r.Server(crowded(1, 1))
	r.Worker(func() Worker { t.Error("asked for a worker that nobody wants to see"); return Worker{} })
	e, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Fetch(context.Background(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("an answer from nowhere")
	}
}

// docs/metrics.md has every name, and no other.
func TestNamesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, shown []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(psrt_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	r := NewRank()
	r.Name("all")
	s := crowded(2, 2)
	s.stats.Tables[0].Tiers = &psmsg.TierStats{Device: "a fake"}
	s.stats.Disks = &psmsg.DiskStats{LimitBytes: 1}
	r.Server(s)
	r.Stalls(stall.New(stall.Config{After: time.Minute}))
	r.Worker(func() Worker {
		return Worker{Calls: map[psmsg.Kind]usage.Counts{psmsg.KindPush: {}}, Pipeline: pipe.Summary{Stages: []pipe.Stage{{Name: "read"}}}}
	})
	half := .5
	r.Training().Set("train", Figures{&half, &half, &half})
	r.Training().Rate("sparse", half)
	r.Saves()
	r.Damaged(func() uint64 { return 0 })
	all, err := NewJob(r, nil).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), "psrt_") {
			shown = append(shown, f.GetName())
		}
	}
	slices.Sort(documented)
	slices.Sort(shown)
	if !slices.Equal(documented, shown) {
		t.Errorf("documented %q\nshown %q", documented, shown)
	}
}
