package cudatest

import (
	"os"
	"sync"
	"testing"

	"psrt/csrc/cuda"
)

// Built names the folder of the programs and libraries that .ci/gpu-check.sh has compiled:
// tests take those where it is set, and need neither a Go nor a compiler.
const Built = "PSRT_BUILT"

var kept sync.Once

// Real says whether tests take this machine's own driver, by PSRT_GPU. Cards' contexts are then kept
// until the process ends: with the last user of one the driver takes it down, and makes it again, kernels and
// all, for the next table of hundreds.
func Real(t testing.TB) bool {
	if os.Getenv("PSRT_GPU") == "" {
		return false
	}
	driver, err := cuda.Load("")
	if err != nil {
		t.Fatal(err)
	}
	kept.Do(func() {
		all, err := driver.Devices()
		for i := range all {
			if err == nil {
				_, err = driver.Open(i)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	return true
}

// Cards is how many this machine's driver shows, where PSRT_GPU is set; where it is not it
// is 0, and a test makes a driver of its own.
func Cards(t testing.TB) int {
	t.Helper()
	if !Real(t) {
		return 0
	}
	driver, err := cuda.Load("")
	if err != nil {
		t.Fatal(err)
	}
	all, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("PSRT_GPU is set, and the driver shows no card")
	}
	return len(all)
}
