//go:build cgo

package job

import (
	"os"
	"testing"

	"psrt/csrc/accel/acceltest"
	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/sched/train"
)

// deviceKinds are those that rows can be kept on, a GPU by a fake driver, or, with
// PSRT_GPU set, by this machine's, and an accelerator by a table of functions.
func deviceKinds(t *testing.T) []string {
	if os.Getenv("PSRT_GPU") == "" {
		t.Setenv(cuda.Variable, cudatest.Library(t))
	}
	return []string{train.DeviceHost, train.DeviceGPU, train.DeviceLibrary + acceltest.Build(t)}
}
