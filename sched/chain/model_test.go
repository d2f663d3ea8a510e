package chain

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestModel tries every history of model/chain.pml with spin (apt-get install
// spin): for each shape of the cluster none breaks a promise, and what leaves out a
// part of the protocol is found out. PSRT_CHAIN_MUTANTS=all leaves out each part,
// else one.
func TestModel(t *testing.T) {
	spin, err := exec.LookPath("spin")
	if err != nil {
		if os.Getenv("PSRT_REQUIRE_SPIN") != "" {
			t.Fatalf("PSRT_REQUIRE_SPIN is set, and there is no spin: apt-get install spin: %v", err)
		}
		t.Logf("not tried, there is no spin (apt-get install spin): %v", err)
		return
	}
	model, err := filepath.Abs("model/chain.pml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, init, epochs, mutation string }{
		{"three members, two cut out", "7", "3", ""},
		{"two, one joins, one is cut out", "3", "4", ""},
		{"one moves", "1", "4", ""},
		{"acknowledged before the tail", "7", "3", "ACK_EARLY"},
		{"no fence", "7", "3", "NO_FENCE"},
		{"no table of pushes", "7", "3", "NO_DEDUP"},
		{"a deposed server serves", "3", "4", "SERVE_DEPOSED"},
		{"a joiner is relied on too soon", "3", "4", "NO_STEP"},
		{"the joiner confirms no lease", "1", "4", "JOINER_SILENT"},
	} {
		if c.mutation != "" && c.mutation != "NO_FENCE" && os.Getenv("PSRT_CHAIN_MUTANTS") != "all" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			args := []string{"-DINIT=" + c.init, "-DEPOCHS=" + c.epochs}
			if c.mutation != "" {
				args = append(args, "-D"+c.mutation)
			}
			out := runModel(t, spin, model, args)
			m := regexp.MustCompile(`errors: (\d+)`).FindStringSubmatch(out)
			switch {
			case m == nil || strings.Contains(out, "max search depth too small") || strings.Contains(out, "reached -DMEMLIM"):
				t.Fatalf("the search was not complete:\n%s", out)
			case c.mutation == "" && m[1] != "0":
				t.Errorf("a promise is broken:\n%s", out)
			case c.mutation != "" && m[1] == "0":
				t.Errorf("%s is not found out:\n%s", c.mutation, out)
			}
		})
	}
}

// runModel builds and runs the search.
func runModel(t *testing.T, spin, model string, args []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir, out := t.TempDir(), ""
	for _, argv := range [][]string{
		append(append([]string{spin, "-a"}, args...), model),
		{"gcc", "-O0", "-w", "-DSAFETY", "-DMEMLIM=2000", "-o", "pan", "pan.c"},
		{"./pan", "-m100000"},
	} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = dir
		b, err := cmd.CombinedOutput()
		if out = string(b); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	return out
}
