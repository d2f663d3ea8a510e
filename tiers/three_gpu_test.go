//go:build cgo

package tiers_test

import (
	"testing"

	"psrt/csrc/cuda/cudatest"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/gpu"
)

// gpus is a GPU with a fake driver, or, with PSRT_GPU set, this machine's.
func gpus(t *testing.T) []hbm.Device {
	if cudatest.Real(t) {
		return []hbm.Device{&gpu.Device{}}
	}
	return []hbm.Device{&gpu.Device{Library: cudatest.Library(t)}}
}
