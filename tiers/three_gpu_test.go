//go:build cgo

package tiers_test

import (
	"os"
	"testing"

	"psrt/csrc/cuda/cudatest"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/gpu"
)

// gpus is a GPU with a fake driver, or, with PSRT_GPU set, this machine's.
func gpus(t *testing.T) []hbm.Device {
	if os.Getenv("PSRT_GPU") != "" {
		return []hbm.Device{&gpu.Device{}}
	}
	return []hbm.Device{&gpu.Device{Library: cudatest.Library(t)}}
}
