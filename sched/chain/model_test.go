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
// part of the protocol is found out. PSRT_CHAIN_MUTANTS=all leaves out each part, else
// two, and tries the large shapes.
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
	all := os.Getenv("PSRT_CHAIN_MUTANTS") == "all"
	for _, c := range []struct {
		name, init, epochs string
		flow, late         bool // in halves; only where all are tried
		mutation           string
	}{
		{name: "three members, two cut out", init: "7", epochs: "3"},
		{name: "two, one joins, one is cut out", init: "3", epochs: "4"},
		{name: "one moves", init: "1", epochs: "4"},
		{name: "in halves: three members, one cut out", init: "7", epochs: "2", flow: true},
		{name: "in halves: two, one joins", init: "3", epochs: "3", flow: true},
		{name: "in halves: one moves", init: "1", epochs: "4", flow: true},
		{name: "in halves: three members, two cut out", init: "7", epochs: "3", flow: true, late: true},
		{name: "in halves: two, one joins, one is cut out", init: "3", epochs: "4", flow: true, late: true},
		{name: "acknowledged before the tail", init: "7", epochs: "3", late: true, mutation: "ACK_EARLY"},
		{name: "no fence", init: "7", epochs: "3", mutation: "NO_FENCE"},
		{name: "no table of pushes", init: "7", epochs: "3", late: true, mutation: "NO_DEDUP"},
		{name: "a deposed server serves", init: "3", epochs: "4", late: true, mutation: "SERVE_DEPOSED"},
		{name: "a joiner is relied on too soon", init: "3", epochs: "4", late: true, mutation: "NO_STEP"},
		{name: "the joiner confirms no lease", init: "1", epochs: "4", late: true, mutation: "JOINER_SILENT"},
		{name: "what is torn is kept", init: "7", epochs: "2", flow: true, mutation: "KEEP_TORN"},
	} {
		if c.late && !all {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			args := []string{"-DINIT=" + c.init, "-DEPOCHS=" + c.epochs}
			if c.flow {
				args = append(args, "-DFLOW")
			}
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
