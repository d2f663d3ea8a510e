//go:build cgo

package hbm

import (
	"os"
	"testing"

	"psrt/csrc/accel/acceltest"
	"psrt/csrc/cuda/cudatest"
	"psrt/csrc/nccl/nccltest"
)

// TestCard is on the fake driver, whose clock says nothing; with PSRT_GPU set on this
// machine's, in full, and prints what it measures.
func TestCard(t *testing.T) {
	if os.Getenv("PSRT_GPU") == "" {
		t.Setenv("PSRT_FAKE_CUDA_DEVICES", "4")
		c := small(DeviceGPU, cudatest.Library(t))
		c.Cards, c.NCCL = 4, nccltest.Build(t)
		run(t, c, "GPU 0, fake device 0")
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

// TestLibrary: an accelerator's, by its table of functions, alone and four together.
func TestLibrary(t *testing.T) {
	c := small(DeviceLibrary+acceltest.Build(t), "")
	c.Index, c.Cards = 1, 4
	run(t, c, "device 1 of ")
}
