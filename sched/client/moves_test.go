package client

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the counters say is held against the runtime's own moves: the test below
// is built with a runtime whose memmove adds up what it is given (at least 256
// bytes at a time, which leaves out headers and keys), without cgo, so that
// every move of payload is the runtime's. With a copy planted the same test must
// fail.
func TestCopiesAreCounted(t *testing.T) {
	out, err := countedRun(t, "")
	if err != nil {
		t.Fatalf("counters and moves differ: %v\n%s", err, out)
	}
	t.Log(out)
	for _, where := range []string{"server", "worker"} {
		out, err = countedRun(t, where)
		if err == nil || !strings.Contains(out, movesDiffer) {
			t.Fatalf("a copy planted at the %s was not noticed: %v\n%s", where, err, out)
		}
	}
}

const movesDiffer = "more than 5 % apart"

func countedRun(t *testing.T, plant string) (string, error) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	runtime, dir := filepath.Join(strings.TrimSpace(string(root)), "src", "runtime"), t.TempDir()
	move := filepath.Join(runtime, "memmove_amd64.s")
	source, err := os.ReadFile(move)
	if err != nil {
		t.Fatal(err)
	}
	const entry = "\tMOVQ\tCX, BX\n"
	if strings.Count(string(source), entry) != 1 {
		t.Fatalf("%s does not begin as known: adapt the entry that is looked for", move)
	}
	counted := strings.Replace(string(source), entry, entry+"\tCMPQ\tCX, $256\n\tJB\ttail\n\tLOCK\n\tADDQ\tCX, runtime·movedBytes(SB)\n", 1)
	files := map[string]string{
		move:                                     counted,
		filepath.Join(runtime, "moved_bytes.go"): "package runtime\n\nimport \"internal/runtime/atomic\"\n\nvar movedBytes uint64\n\nfunc MovedBytes() uint64 { return atomic.Load64(&movedBytes) }\n",
	}
	replace := map[string]string{}
	for name, text := range files {
		replace[name] = filepath.Join(dir, filepath.Base(name))
		must(t, os.WriteFile(replace[name], []byte(text), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	list := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(list, overlay, 0o600))
	c := exec.Command("go", "test", "-count=1", "-v", "-timeout=5m", "-overlay="+list, "-tags=psrt_moves", "-run=^TestMoves$", ".")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "PSRT_PLANT="+plant)
	b, err := c.CombinedOutput()
	return string(b), err
}
