//go:build cgo

package job

import (
	"strings"
	"testing"

	"psrt/csrc/accel/acceltest"
	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
	"psrt/tiers/hbm/pick"
)

// deviceKinds are those that rows can be kept on, a GPU by a fake driver, or, with
// PSRT_GPU set, by this machine's, and an accelerator by a table of functions.
func deviceKinds(t *testing.T) []string {
	if !cudatest.Real(t) {
		t.Setenv(cuda.Variable, cudatest.Library(t))
	}
	return []string{pick.Host, pick.GPU, pick.Library + acceltest.Build(t)}
}

// deviceSpreads are several devices for four lanes: twins, which have one name, and unlike ones, with a slow one,
// which may have no lane, where it can be compiled.
func deviceSpreads(t *testing.T) []deviceSpread {
	kinds := deviceKinds(t)
	table, unlike := kinds[2], kinds
	if !cudatest.Real(t) {
		unlike = append(unlike, pick.Library+acceltest.Build(t, "-DNAP_MS=5"))
	}
	return []deviceSpread{{"host,host,host,host", 1},
		{strings.Join([]string{table, table, table, table}, ","), 2}, // which the library has
		{strings.Join(unlike, ","), anyDevices}}
}

// TestSpreadOverCards: likewise on four cards of the fake driver's, or, with PSRT_GPU set, as many of this machine's.
func TestSpreadOverCards(t *testing.T) {
	n := min(cudatest.Cards(t), 4)
	if n == 0 {
		n = 4
		t.Setenv(cuda.Variable, cudatest.Library(t))
		t.Setenv("PSRT_FAKE_CUDA_LIKE", "1") // so each has a lane, however fast it is
	}
	driver, err := cuda.Load("")
	if err != nil {
		t.Fatal(err)
	}
	all, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	spread := deviceSpread{"0,1,2,3"[:2*n-1], n}
	for _, card := range all[:n] {
		if card.Name != all[0].Name {
			spread.devices = anyDevices
		}
	}
	trySpreads(t, []deviceSpread{spread})
}
