package nccltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"psrt/csrc/cuda/cudatest"
)

const source = "csrc/nccl/nccltest/testdata/fake.c"

// Build compiles one, which wants a fake driver that is loaded before it; defines, such as
// -DVERSION=2708, make it another version.
func Build(t testing.TB, defines ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cudatest.Root(t), source)) // by Go, so that it knows what the test's result hangs on
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	from, driver, out := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libcuda.so.1"), filepath.Join(dir, "libnccl.so.2")
	if err := os.WriteFile(from, text, 0o600); err != nil {
		t.Fatal(err)
	}
	compile(t, "-Wl,-soname,libcuda.so.1", "-o", driver, "-xc", os.DevNull) // the name of what is loaded
	compile(t, append(defines, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", out, from, "-Wl,--no-as-needed", driver)...)
	return out
}

func compile(t testing.TB, args ...string) {
	t.Helper()
	c := exec.Command("gcc", append([]string{"-shared", "-fPIC"}, args...)...)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, text)
	}
}
