//go:build cgo

package serve

import (
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/tiers/hbm/pick"
)

// deviceKinds are the twin, and a GPU by a fake driver, or, with PSRT_GPU set, by this machine's.
func deviceKinds(t *testing.T) []string {
	if !cudatest.Real(t) {
		t.Setenv(cuda.Variable, cudatest.Library(t))
	}
	return []string{pick.Host, pick.GPU}
}
