package cudatest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"psrt/csrc/cuda"
)

var sources = []string{"csrc/cuda/cudatest/testdata/fake.c", "csrc/cuda/cudatest/testdata/fake_rdma.h", "csrc/cuda/cudatest/testdata/fake_copies.h", "csrc/cuda/cudatest/testdata/fake_ops.h", "csrc/cuda/cudatest/testdata/fake_text.h", "csrc/cuda/cudatest/testdata/fake_warps.h"}

var (
	lock  sync.Mutex
	ready string
)

// Library is the file of a fake driver, compiled and loaded for the first test of a
// process that asks; later ones may be given a file that is gone, and need it no more.
func Library(t testing.TB) string {
	t.Helper()
	lock.Lock()
	defer lock.Unlock()
	if ready != "" {
		return ready
	}
	out := Build(t)
	if _, err := cuda.Load(out); err != nil {
		t.Fatal(err)
	}
	ready = out
	return out
}

// ThreadsOwn has threads' own variables of a library that is loaded late lie where those of
// the program do: LeakSanitizer crashes where it looks for others.
const ThreadsOwn = "-ftls-model=initial-exec"

// Build compiles one, which another process may load.
func Build(t testing.TB) string {
	t.Helper()
	dir := Sources(t, sources...)
	out := filepath.Join(dir, "libcuda.so.1")
	c := exec.Command("gcc", "-std=gnu11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", ThreadsOwn,
		"-Wl,-soname,libcuda.so.1", // by which a library that is made of it finds it
		"-o", out, filepath.Join(dir, "fake.c"), "-lm", "-lpthread")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, text)
	}
	return out
}

// Sources copies files of the module to a folder, which is gone with the test: they are
// read by Go, so that it knows what the test's result hangs on.
func Sources(t testing.TB, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(Root(t), file))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Root is the module's folder, which tests run somewhere below.
func Root(t testing.TB) string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("no go.mod above this test: %v", err)
	return ""
}
