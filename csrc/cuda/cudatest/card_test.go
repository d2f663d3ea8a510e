package cudatest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCard: what the fake driver's card does with PTX is what its manual says, and what no card
// should be given is refused.
func TestCard(t *testing.T) {
	dir := Sources(t, append(sources, "csrc/cuda/cudatest/testdata/card.c")...)
	out := filepath.Join(dir, "card")
	c := exec.Command("gcc", "-std=gnu11", "-O0", "-ffp-contract=off", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-Wall", "-Wextra", "-Werror",
		"-o", out, filepath.Join(dir, "card.c"), "-lm", "-lpthread")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, text)
	}
	run := exec.Command(out)
	run.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0") // a driver keeps its streams
	if text, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
