//go:build cgo

package job

import (
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/sched/train"
)

// deviceKinds are those that rows can be kept on, a GPU by a fake driver.
func deviceKinds(t *testing.T) []string {
	t.Setenv(cuda.Variable, cudatest.Library(t))
	return []string{train.DeviceHost, train.DeviceGPU}
}
