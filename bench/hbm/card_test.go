//go:build cgo

package hbm

import (
	"os"
	"testing"

	"psrt/csrc/cuda/cudatest"
)

// TestCard is on the fake driver, whose clock says nothing; with PSRT_GPU set on this
// machine's, in full, and prints what it measures.
func TestCard(t *testing.T) {
	if os.Getenv("PSRT_GPU") == "" {
		run(t, small(DeviceGPU, cudatest.Library(t)), "GPU 0, fake device 0")
		return
	}
	r, err := Run(t.Context(), Config{Device: DeviceGPU, Rows: 1 << 20, Dim: 64, Misses: 10, Rounds: 7, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Text(os.Stdout); err != nil {
		t.Fatal(err)
	}
}
