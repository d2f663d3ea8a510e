package acceltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"psrt/csrc/cuda/cudatest"
)

var sources = []string{"csrc/accel/testdata/twin.c", "csrc/accel/psrt_accel.h", "csrc/ptx/device.h", "csrc/ptx/rules.h", "csrc/ptx/parts.h", "csrc/ptx/find.h", "csrc/ptx/dense.h", "csrc/ptx/rows.cu"}

// Variable names a library that was compiled before, for where there is no compiler.
const Variable = "PSRT_ACCEL_TWIN"

// Build compiles a library; defines make it another, which Variable's is not.
func Build(t testing.TB, defines ...string) string {
	t.Helper()
	if built := os.Getenv(Variable); built != "" && len(defines) == 0 {
		return built
	}
	dir := cudatest.Sources(t, sources...)
	out := filepath.Join(dir, "twin.so")
	args := append([]string{"-std=gnu11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", cudatest.ThreadsOwn, "-o", out, filepath.Join(dir, "twin.c"), "-lm"}, defines...)
	if text, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, text)
	}
	return out
}
