package cudatest

import (
	"os"
	"testing"

	"psrt/csrc/cuda"
)

// Built names the folder of the programs and libraries that .ci/gpu-check.sh has compiled:
// tests take those where it is set, and need neither a Go nor a compiler.
const Built = "PSRT_BUILT"

// Cards is how many this machine's driver shows, where PSRT_GPU is set; where it is not it
// is 0, and a test makes a driver of its own.
func Cards(t testing.TB) int {
	t.Helper()
	if os.Getenv("PSRT_GPU") == "" {
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
