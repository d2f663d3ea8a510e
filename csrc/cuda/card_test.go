//go:build cgo

package cuda_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"psrt/csrc/cuda"
	"psrt/csrc/cuda/cudatest"
)

// gpuCheck copies what .ci/gpu-check.sh takes to a folder, without a Go: it would build.
func gpuCheck(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, file := range []string{".ci/gpu-check.sh", "csrc/cuda/testdata/card.c"} {
		text, err := os.ReadFile(filepath.Join(cudatest.Root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(root, file), string(text))
	}
	return root
}

// put writes a program.
func put(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o700)); err != nil {
		t.Fatal(err)
	}
}

// TestGPUCheckFails: where no driver or card is, the checks of a GPU end before anything is built for
// them, and say what is missing.
func TestGPUCheckFails(t *testing.T) {
	root := gpuCheck(t)
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

// TestGPUCheckSays: what a host cannot run is said, with all that it lacks, and passes for nothing; so are
// checks that skip a test or have none.
func TestGPUCheckSays(t *testing.T) {
	root, fake := gpuCheck(t), cudatest.Build(t)
	script := filepath.Join(root, ".ci/gpu-check.sh")
	list, err := exec.Command("sh", script, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(root, "bin/gpu-check")
	for line := range strings.Lines(string(list)) {
		if name, _, is := strings.Cut(line, ", tests that match "); is {
			name = strings.TrimSpace(name)
			put(t, filepath.Join(root, name, "here"), "")
			put(t, filepath.Join(built, strings.ReplaceAll(name, "/", "-")), "#!/bin/sh\necho '--- PASS: Test'\n")
		}
	}
	put(t, filepath.Join(built, "tiers"), "#!/bin/sh\necho '--- PASS: TestOne'; echo '--- SKIP: TestTwo'\n")
	for _, name := range []string{"twin.so", "psrt", "libpsrt.so", "device", "python/python3"} {
		put(t, filepath.Join(built, name), "#!/bin/sh\nexit 1\n")
	}
	for _, c := range []struct {
		cards, nccl, serve string
		says, not          []string
	}{
		{"1", "/nowhere.so", "", []string{"passed:\n  tiers/hbm/gpu, tests that match .\n", "NCCLCards: takes two cards, this host has 1; no NCCL: /nowhere.so", "SpreadOverCards: takes two cards, this host has 1\n",
			"no PyTorch for CUDA here", "ThreeTiers: --- SKIP: TestTwo\n"}, []string{"failed:"}},
		{"2", fake, "echo '--- PASS: Test'; exit 3", []string{"NCCLCards\n", "failed:\n  sched/serve, tests that match Device$\n"}, []string{"takes two", "no NCCL"}},
		{"2", fake, "echo 'testing: warning: no tests to run'", []string{"failed:\n  sched/serve, tests that match Device$\n"}, nil},
	} {
		put(t, filepath.Join(built, "sched-serve"), "#!/bin/sh\n"+cmp.Or(c.serve, "echo '--- PASS: Test'")+"\n")
		run := exec.Command("sh", script)
		run.Env = append(os.Environ(), cuda.Variable+"="+fake, "PSRT_FAKE_CUDA_DEVICES="+c.cards, "PSRT_NCCL_LIBRARY="+c.nccl, "PATH="+filepath.Join(built, "python")+":"+os.Getenv("PATH"))
		text, err := run.CombinedOutput()
		if (err != nil) != (c.serve != "") {
			t.Errorf("%s cards: %v", c.cards, err)
		}
		for _, says := range c.says {
			if !strings.Contains(string(text), says) {
				t.Errorf("%s cards: nothing of %q in\n%s", c.cards, says, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(string(text), not) {
				t.Errorf("%s cards: %q in\n%s", c.cards, not, text)
			}
		}
	}
}
