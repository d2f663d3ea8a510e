//go:build cgo

package layers

import (
	"os"
	"strings"
	"testing"

	"psrt/csrc/accel/acceltest"
	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/sched/train/model"
)

func small(device string) Config {
	return Config{Device: device, Examples: 10, Leaves: 3, Rounds: 2, Seed: 7,
		Model: model.Spec{Task: model.CTR, Kind: model.DeepFM, Fields: 4, Dim: 4, Hidden: []int{16}}}
}

// TestRun: it runs on every device that there is without a card, and compares.
func TestRun(t *testing.T) {
	t.Setenv(cuda.Variable, cudatest.Library(t))
	sum := ""
	for device, says := range map[string]string{"host": "host form", "gpu": "fake device", "so:" + acceltest.Build(t): "host twin in a library"} {
		r, err := Run(t.Context(), small(device))
		if err != nil {
			t.Fatalf("%s: %v", device, err)
		}
		if len(r.Rows) != 1 || r.Rows[0].Ratio <= 0 || r.Rows[0].Iterations == 0 || !strings.Contains(strings.Join(r.Notes, "\n"), says) {
			t.Errorf("%s: %+v, %q", device, r.Rows, r.Notes)
		}
		if sum != "" && r.Rows[0].Checksum != sum {
			t.Errorf("%s has checksum %s, another device %s", device, r.Rows[0].Checksum, sum)
		}
		sum = r.Rows[0].Checksum
	}
}

// TestCard is on the fake driver, whose clock says nothing; with PSRT_GPU set on this
// machine's, in full, and prints what it measures.
func TestCard(t *testing.T) {
	c := small("gpu")
	if os.Getenv("PSRT_GPU") == "" {
		t.Setenv(cuda.Variable, cudatest.Library(t))
	} else {
		c.Examples, c.Leaves, c.Rounds = 512, 8, 7
		c.Model.Fields, c.Model.Dim, c.Model.Hidden = 39, 16, []int{1024, 512, 256}
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("PSRT_GPU") == "" {
		return
	}
	if err := r.Text(os.Stdout); err != nil {
		t.Fatal(err)
	}
}

// TestRefused: what cannot be measured says what it wants.
func TestRefused(t *testing.T) {
	for says, spoil := range map[string]func(*Config){
		"no device":       func(c *Config) { c.Device = "" },
		"has no layers":   func(c *Config) { c.Model.Kind = model.FM },
		"0 examples":      func(c *Config) { c.Examples = 0 },
		"65 micro":        func(c *Config) { c.Leaves = 65 },
		"0 rounds":        func(c *Config) { c.Rounds = 0 },
		"--device host":   func(c *Config) { c.Device = "so:/nowhere.so" },
		"0 hidden layers": func(c *Config) { c.Model.Hidden = nil },
	} {
		c := small("host")
		spoil(&c)
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
}
