package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// gate is what a job's workers wait at, pass by pass: the job is not over, nor in a pass, before
// the test lets it. It is a file, in which the number of passes stands.
type gate string

// gated is a queue of the rows of text, for flags that begin as those of psrt train, and
// the gate before the last of its two files. A worker reads each file once to look at it,
// and then once a pass; by $PPID, itself, it is told from the others. All passes are let
// through at first.
func gated(t *testing.T, text string, passes int) (flags []string, g gate) {
	t.Helper()
	dir := t.TempDir()
	g = gate(filepath.Join(dir, "passes"))
	g.let(t, passes)
	lines := strings.SplitAfter(text, "\n")
	most := len(lines) * 9 / 10
	first, last := write(t, dir, "train.libffm", strings.Join(lines[:most], "")), write(t, dir, "last.libffm", strings.Join(lines[most:], ""))
	// Where the test has ended there is no gate, and nobody waits on.
	wait := fmt.Sprintf(`case "$PSRT_FILE" in *last.libffm) echo >> "$PSRT_FILE.$PPID"; n=$(wc -l < "$PSRT_FILE.$PPID"); while [ "$n" -gt $((1 + $(cat %[1]s))) ] && [ -e %[1]s ]; do sleep .05; done;; esac; cat`, g)
	return []string{"train", "--data", first + "," + last, "--dataset", "queue", "--epochs", fmt.Sprint(passes), "--pipe-command", wait, "--pipe-timeout", "10m"}, g
}

// let lets so many passes through, all in all.
func (g gate) let(t *testing.T, passes int) {
	t.Helper()
	next := string(g) + ".next" // whoever reads finds a number
	must(t, os.WriteFile(next, []byte(fmt.Sprint(passes)), 0o600))
	must(t, os.Rename(next, string(g)))
}

// eventually waits until something is so: a look may be taken while a process has no core.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in %v it has not come to be that %s", limit, what)
		}
	}
}
