package nvmltest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"psrt/csrc/cuda/cudatest"
)

const source = "csrc/nvml/nvmltest/testdata/fake.c"

// Library is the file of a fake library; of flags are defines that leave parts of it out.
func Library(t testing.TB, flags ...string) string {
	t.Helper()
	dir := cudatest.Sources(t, source)
	out := filepath.Join(dir, "libnvidia-ml.so.1")
	args := append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", out, filepath.Join(dir, "fake.c")}, flags...)
	c := exec.Command("gcc", args...)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, text)
	}
	return out
}
