package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// One row has one label: no AUC, and nobody is told .5.
func TestGenOfOneLabel(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.libffm")
	o := psrt(t, "gen", "zipf", "--rows", "1", "--out", out)
	if o.code != 0 || !strings.Contains(o.stdout, "planted AUC              -\n") || !strings.Contains(o.stderr, "all of one label") {
		t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = psrt(t, "gen", "zipf", "--rows", "1", "--out", out, "--json")
	if o.code != 0 || strings.Contains(o.stdout, "auc") || !strings.Contains(o.stderr, "warning") {
		t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if o = psrt(t, "gen", "zipf", "--rows", "20000", "--out", out); o.code != 0 || o.stderr != "" || strings.Contains(o.stdout, "AUC              -") {
		t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}
