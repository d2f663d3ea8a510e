//go:build cgo

package cuda_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
)

// TestGPUCheckFails: where no driver or card is, the checks of a GPU end before anything is built for
// them, and say what is missing.
func TestGPUCheckFails(t *testing.T) {
	root := t.TempDir() // of a copy, without a Go: it would build
	for _, file := range []string{".ci/gpu-check.sh", "csrc/cuda/testdata/card.c"} {
		text, err := os.ReadFile(filepath.Join(cudatest.Root(t), file))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, file), text, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fake := cudatest.Build(t)
	for _, c := range []struct{ library, devices, says string }{
		{"/nowhere/libcuda.so.1", "1", "no GPU driver: /nowhere/libcuda.so.1"},
		{fake, "0", "shows no card (CUDA error 100;"},
		{fake, "2", "2 GPUs are here"},
	} {
		run := exec.Command("sh", filepath.Join(root, ".ci/gpu-check.sh"))
		run.Env = append(os.Environ(), cuda.Variable+"="+c.library, "PSRT_FAKE_CUDA_DEVICES="+c.devices)
		text, err := run.CombinedOutput()
		if built := strings.Contains(string(text), "twin.so"); err == nil || !strings.Contains(string(text), c.says) || built != (c.devices == "2") {
			t.Errorf("%s, %s cards: %v\n%s", c.library, c.devices, err, text)
		}
	}
}
