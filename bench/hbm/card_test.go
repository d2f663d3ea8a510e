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
	if cudatest.Cards(t) == 0 {
		t.Setenv("PSRT_FAKE_CUDA_DEVICES", "4")
		run(t, small(DeviceGPU, cudatest.Library(t)), "GPU 0, fake device 0")
		return
	}
	measure(t, 1)
}

// measure measures this machine's cards, in full, and prints what it finds.
func measure(t *testing.T, cards int) {
	r, err := Run(t.Context(), Config{Device: DeviceGPU, Rows: 1 << 20, Dim: 64, Misses: 10, Rounds: 7, Seed: 1, Cards: cards})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Text(os.Stdout); err != nil {
		t.Fatal(err)
	}
}

// TestCards: rows spread over several and exchanged by NCCL, likewise; the digest is that of one.
func TestCards(t *testing.T) {
	if cards := cudatest.Cards(t); cards > 0 {
		measure(t, min(cards, maxCards))
		return
	}
	t.Setenv("PSRT_FAKE_CUDA_DEVICES", "4")
	c := small(DeviceGPU, cudatest.Library(t))
	c.Cards, c.NCCL = 4, nccltest.Build(t)
	run(t, c, "GPU 0, fake device 0")
}

// TestLibrary: an accelerator's, by its table of functions, alone and four together.
func TestLibrary(t *testing.T) {
	c := small(DeviceLibrary+acceltest.Build(t), "")
	c.Index, c.Cards = 1, 4
	run(t, c, "device 1 of ")
}
