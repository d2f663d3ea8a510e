package chain

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMutants builds this package with one line of the machine made wrong, and runs
// the simulation on it, which must find out. PSRT_CHAIN_MUTANTS=all takes all, else
// the first two.
func TestMutants(t *testing.T) {
	if os.Getenv("PSRT_CHAIN_MUTANT") != "" {
		return // this is one
	}
	mutants := []struct{ name, file, from, to string }{
		{"a copy without the table of pushes", "feed.go", "Clients: clients, Bytes", "Clients: clients[:0], Bytes"},
		{"acknowledged before the tail", "order.go", "	count(m.ordered, &h)\n	m.drive()", "	count(m.ordered, &h)\n	m.out.Done = append(m.out.Done, Done{h, m.cfg.Epoch})\n	m.drive()"},
		{"a deposed server serves", "order.go", "m.pos < 0 || !m.leased || epoch != m.cfg.Epoch", "m.pos < 0 || epoch != m.cfg.Epoch"},
		{"pushes count twice", "order.go", "case h.Push <= c.Last:", "case false:"},
		{"no fence", "machine.go", "if m.fenced = len(m.removed) == 0; !m.fenced {", "if m.fenced = true; !m.fenced {"},
		{"torn pushes are kept", "machine.go", "!(wasHead && m.pos == 0)", "false"},
		{"other epochs are heard", "link.go", "case msg.Epoch < m.cfg.Epoch:", "case false:"},
		{"a joiner is relied on too soon", "order.go", "!m.clear() || m.feed != nil && m.feed.inStep {", "!m.clear() {"},
		{"runs are cut", "order.go", "for seq > m.committed && m.at(seq).Merge {", "for false {"},
		{"a copy without the past", "feed.go", "Bytes: m.state.Past()", "Bytes: nil"},
		{"lost state is taken for a state", "machine.go", "m.has && m.mine == me.Joined:", "true:"},
	}
	if os.Getenv("PSRT_CHAIN_MUTANTS") != "all" {
		mutants = mutants[:2]
	}
	for _, mu := range mutants {
		t.Run(mu.name, func(t *testing.T) {
			path, err := filepath.Abs(mu.file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(text), mu.from) != 1 {
				t.Fatalf("%s has not once: %s", mu.file, mu.from)
			}
			dir := t.TempDir()
			wrong, overlay := filepath.Join(dir, mu.file), filepath.Join(dir, "overlay.json")
			list, err := json.Marshal(map[string]map[string]string{"Replace": {path: wrong}})
			if err != nil {
				t.Fatal(err)
			}
			for name, b := range map[string][]byte{wrong: []byte(strings.Replace(string(text), mu.from, mu.to, 1)), overlay: list} {
				if err := os.WriteFile(name, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-overlay", overlay, "-run", "TestSimulation", ".")
			cmd.Env = append(os.Environ(), "PSRT_CHAIN_MUTANT=1", "PSRT_CHAIN_SEEDS=2000", "PSRT_SEED=1")
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("2000 simulated clusters do not find out")
			}
			t.Logf("%.400s", out)
			if !strings.Contains(string(out), "--- FAIL: TestSimulation") || strings.Contains(string(out), "[build failed]") {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
