package whole

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"psrt/bench/cable"
	"psrt/bench/child"
	"psrt/rdma/feature"
	"psrt/sched/compress"
	"psrt/sched/train/model"
)

// The test binary is another part of a run when this is set.
func TestMain(m *testing.M) {
	if os.Getenv("PSRT_TEST_PART") != "" {
		if err := ServePart(os.Args[len(os.Args)-1], os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func small(t *testing.T, link string) Config {
	return Config{Model: model.Spec{Kind: model.DeepFM, Dim: 4, Hidden: []int{8}}, Fields: 6, Vocab: 5000, Zipf: 1.1, Batch: 256, Steps: 8, Rounds: 2, Seed: 7,
		Dir: t.TempDir(), Link: link, LinkShare: .6, QueueBytes: 128 << 10, Part: child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_PART=1"}}}
}

// TestRun: all sides train, over loopback and over a link of their own, and the trainer and
// the rival have one model; a run whose models differ fails.
func TestRun(t *testing.T) {
	for _, link := range []string{cable.None, cable.Veth} {
		t.Run(link, func(t *testing.T) {
			cfg := small(t, link)
			cfg.Compress, cfg.Crew = []compress.Choice{{Code: compress.Half}}, 3
			if link == cable.Veth {
				cfg.RateBits = 400e6
			}
			r, err := Run(t.Context(), cfg, nil)
			if errors.Is(err, ErrNoLink) {
				feature.SkipUnless(t, fmt.Errorf("%w: %w", err, feature.ErrNotSupported))
			}
			if err != nil {
				t.Fatal(err)
			}
			names := cfg.names()
			if len(r.Rows) != len(names) || len(names) != int(sidesAll)+3 {
				t.Fatalf("%d rows, want %d", len(r.Rows), len(names))
			}
			if last := r.Notes[len(r.Notes)-1]; !strings.Contains(last, "3 workers as one host: ") || strings.Contains(last, "(0 a step") {
				t.Errorf("%q", last)
			}
			if last := r.Notes[len(r.Notes)-2]; !strings.Contains(last, "over the link, fp16: ") || !strings.Contains(last, " of the gradients' bytes (fp16)") {
				t.Errorf("%q", last)
			}
			for i, row := range r.Rows {
				if row.Op != names[i] || row.Iterations != cfg.Steps*cfg.Rounds || !(row.Latency.Typical > 0) || !(row.Limit > 0) || !(row.Ratio > 0) || row.Checksum == "00000000" || row.Bytes < 4*5 {
					t.Errorf("%+v", row)
				}
			}
		})
	}
}

// TestRateFollowsTheStep: without a rate, the link's is that of a step.
func TestRateFollowsTheStep(t *testing.T) {
	cfg := small(t, cable.Veth)
	st := &station{cfg: &cfg, say: func(stationSays) error { return nil }}
	var err error
	if st.data, err = makeData(t.Context(), &cfg); err != nil {
		t.Fatal(err)
	}
	m := newMeasured(&cfg)
	if err := st.calibrate(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if m.bytes < float64(4*st.data.model.Layout().Total) || cfg.RateBits < minRateBits {
		t.Errorf("a step of %g bytes each way, a rate of %d", m.bytes, cfg.RateBits)
	}
}

// TestAnotherModelIsRefused: a side whose loss is another's trained something else.
func TestAnotherModelIsRefused(t *testing.T) {
	cfg := small(t, cable.None)
	m := newMeasured(&cfg)
	m.loss = .5
	for side, off := range map[int]float64{ours: .03, classicSide: .001} {
		if err := m.add(side, outcome{seconds: 1, loss: .5 * (1 + off)}); err == nil {
			t.Errorf("%s: a loss that is off by %g was accepted", cfg.names()[side], off)
		}
	}
	if err := m.add(classicSide, outcome{seconds: 1, loss: .5}); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	good := small(t, cable.Veth)
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for says, spoil := range map[string]func(*Config){
		`link "wire"`:  func(c *Config) { c.Link = "wire" },
		"a rate of":    func(c *Config) { c.RateBits = 1 },
		"without a":    func(c *Config) { c.Link, c.RateBits = cable.None, 1e8 },
		"takes 0 of":   func(c *Config) { c.LinkShare = 0 },
		"queue":        func(c *Config) { c.QueueBytes = 1 },
		"1 steps":      func(c *Config) { c.Steps = 1 },
		"0 rounds":     func(c *Config) { c.Rounds = 0 },
		"9 ways":       func(c *Config) { c.Compress = make([]compress.Choice, 9) },
		"no such":      func(c *Config) { c.Compress = []compress.Choice{{Code: 77}} },
		"1 workers as": func(c *Config) { c.Crew = 1 },
		"a batch of 0": func(c *Config) { c.Batch = 0 },
		"no directory": func(c *Config) { c.Dir = "" },
		"fields":       func(c *Config) { c.Fields = 0 },
	} {
		c := good
		spoil(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in %v", says, err)
		}
	}
}
