package micro

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/rdma"
	"psrt/rdma/quic"
	"psrt/rdma/shm"
	"psrt/rdma/tcp"
)

// The test binary is the peer when this is set; its value says how it fails.
const peerEnv = "PSRT_MICRO_TEST_PEER"

func TestMain(m *testing.M) {
	how := os.Getenv(peerEnv)
	if how == "" {
		os.Exit(m.Run())
	}
	if how == "dies" {
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(1)
	}
	if how == "hangs" {
		time.Sleep(time.Minute)
	}
	if err := ServePeer(os.Stdin, os.Stdout, openTest); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func openTest(transport string) (rdma.Domain, error) {
	switch transport {
	case "shm":
		return shm.New(shm.Config{Purpose: "test"})
	case "tcp":
		return tcp.New(tcp.Config{Listen: "127.0.0.1:0"})
	case "tls":
		return tcp.New(tcp.Config{Listen: "127.0.0.1:0", Cover: tcp.CoverAll})
	case "quic":
		c, err := quic.New()
		if err != nil {
			return nil, err
		}
		return tcp.New(tcp.Config{Carrier: c, Listen: "127.0.0.1:0"})
	}
	return nil, fmt.Errorf("no transport %q", transport)
}

func config(suite, transport, peer string) Config {
	return Config{
		Suite: suite, Transport: transport, Sizes: []int{8, 13, 4096, 1 << 20}, Iterations: 101, Rounds: 3,
		Seed: 7, BulkBytes: 1 << 20, Open: openTest, Peer: child.Command{Path: os.Args[0], Env: []string{peerEnv + "=" + peer}},
	}
}

func TestRun(t *testing.T) {
	for _, transport := range []string{"shm", "tcp", "tls", "quic"} {
		for suite, ops := range map[string]int{SuiteLatency: 1, SuiteBandwidth: 2} {
			t.Run(suite+"/"+transport, func(t *testing.T) {
				cfg := config(suite, transport, "serves")
				r, err := Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Rows) != ops*len(cfg.Sizes) || r.Transport != transport || r.Suite != suite || len(r.Notes) == 0 || r.Notes[0] == "" {
					t.Fatalf("report %+v", r)
				}
				for _, row := range r.Rows {
					checkRow(t, row, suite, transport)
				}
			})
		}
	}
}

func checkRow(t *testing.T, row report.Row, suite, transport string) {
	t.Helper()
	bad := row.Iterations != 101 || !(row.Limit > 0) || !(row.Ratio > 0) || len(row.Checksum) != 8 || row.CPUSecondsPerGB < 0
	if suite == SuiteLatency {
		l := row.Latency
		bad = bad || l == nil || !(l.Min > 0 && l.Min <= l.Typical && l.Typical <= l.P99 && l.P99 <= l.P999)
	} else {
		b := row.Bandwidth
		bad = bad || b == nil || !(b.Avg > 0 && b.Avg <= b.Peak*1.000001) || (row.BulkLimit > 0) != (transport == "shm")
	}
	if bad {
		t.Errorf("row %+v %+v %+v", row, row.Latency, row.Bandwidth)
	}
}

func TestDuration(t *testing.T) {
	cfg := config(SuiteLatency, "shm", "serves")
	cfg.Sizes, cfg.Duration = []int{64}, time.Second // however rarely both have a core
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Rows[0].Iterations; n <= 101 {
		t.Errorf("%d iterations in %s", n, cfg.Duration)
	}
}

// lossy drops every third write, and says that it was done.
type lossy struct {
	rdma.Endpoint
	posted int
}

func (l *lossy) Post(wrs []rdma.WR) (int, error) {
	for i := range wrs {
		if l.posted++; l.posted%3 == 0 && wrs[i].Op != rdma.OpRead {
			wrs[i].Local, wrs[i].Remote.Len = wrs[i].Local[:0], 0
		}
	}
	return l.Endpoint.Post(wrs)
}

type lossyDomain struct{ rdma.Domain }

func (d lossyDomain) NewEndpoint(c rdma.EndpointConfig) (rdma.Endpoint, error) {
	ep, err := d.Domain.NewEndpoint(c)
	return &lossy{Endpoint: ep}, err
}

func TestLostBytesAreFound(t *testing.T) {
	for _, suite := range []string{SuiteLatency, SuiteBandwidth} {
		cfg := config(suite, "shm", "serves")
		cfg.Open = func(string) (rdma.Domain, error) {
			d, err := openTest("shm")
			return lossyDomain{d}, err
		}
		if _, err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: a transport that drops writes was measured", suite)
		}
	}
}

func TestPeerEnds(t *testing.T) {
	_, err := Run(t.Context(), config(SuiteLatency, "shm", "dies"))
	if err == nil || !strings.Contains(err.Error(), "last words") {
		t.Errorf("a peer that dies: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := Run(ctx, config(SuiteLatency, "shm", "hangs")); err == nil || time.Since(start) > 40*time.Second {
		t.Errorf("a peer that hangs: %v after %s", err, time.Since(start))
	}
	if _, err := Run(t.Context(), config(SuiteLatency, "none", "serves")); err == nil {
		t.Error("an unknown transport was measured")
	}
	cfg := config(SuiteLatency, "shm", "serves")
	cfg.Peer.Path = "does-not-exist"
	if _, err := Run(t.Context(), cfg); err == nil {
		t.Error("ran without a peer")
	}
}

func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"suite":      func(c *Config) { c.Suite = "lot" },
		"no sizes":   func(c *Config) { c.Sizes = nil },
		"small":      func(c *Config) { c.Sizes = []int{7} },
		"large":      func(c *Config) { c.Sizes = []int{maxBytes + 1} },
		"iterations": func(c *Config) { c.Iterations = 0 },
		"rounds":     func(c *Config) { c.Rounds = -1 },
		"volume":     func(c *Config) { c.Volume = -1 },
		"duration":   func(c *Config) { c.Duration = -1 },
	} {
		cfg := config(SuiteLatency, "shm", "serves")
		change(&cfg)
		if cfg.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSlots(t *testing.T) {
	for _, n := range []int{8, 4096, ringBytes / 7, ringBytes / 3, ringBytes, maxBytes} {
		s := slots(n)
		if s < 1 || s > depth || s%group(s) != 0 || regionBytes([]int{n}) < lineBytes+max(s, 2)*n {
			t.Errorf("%d bytes: %d slots in groups of %d, region of %d", n, s, group(s), regionBytes([]int{n}))
		}
	}
}
