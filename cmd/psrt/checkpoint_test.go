package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goldenHistory is a copy of one that was once written: a base, two deltas and
// one for serving.
func goldenHistory(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "history")
	if err := os.CopyFS(dir, os.DirFS("../../tiers/ckpt/testdata/format2")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func decoded[T any](t *testing.T, o outcome, code int) (v T) {
	t.Helper()
	if o.code != code {
		t.Fatalf("exit %d, want %d: %s%s", o.code, code, o.stdout, o.stderr)
	}
	if err := json.Unmarshal([]byte(o.stdout), &v); err != nil {
		t.Fatalf("%v in %q", err, o.stdout)
	}
	return v
}

type listed struct {
	Generations []generation `json:"generations"`
}

func TestCheckpointList(t *testing.T) {
	dir := goldenHistory(t)
	got := decoded[listed](t, psrt(t, "checkpoint", "ls", dir, "--json"), 0).Generations
	if len(got) != 4 || got[0].Kind != "base" || got[2].Parent != 2 || got[3].For != "serving" || got[3].Quantise != "int8" || got[2].Deleted == 0 || got[1].Step != 2 {
		t.Errorf("generations %+v", got)
	}
	if o := psrt(t, "checkpoint", "ls", dir); o.code != 0 || strings.Count(o.stdout, "\n") != 5 || !strings.Contains(o.stdout, "serving int8") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
	if err := os.Remove(filepath.Join(dir, "MANIFEST-0000000002.json")); err != nil {
		t.Fatal(err)
	}
	if o := psrt(t, "checkpoint", "ls", dir); o.code != 2 || strings.Count(o.stdout, "\n") != 4 || !strings.Contains(o.stderr, "MANIFEST-0000000002.json") {
		t.Errorf("without generation 2: exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
}

func TestCheckpointVerify(t *testing.T) {
	dir := goldenHistory(t)
	type verdict struct {
		OK       bool `json:"ok"`
		Models   map[uint64]string
		Parts    int      `json:"parts"`
		Digests  []uint64 `json:"digests"`
		Problems []struct {
			Generation uint64 `json:"generation"`
			Path       string `json:"path"`
		} `json:"problems"`
	}
	if v := decoded[verdict](t, psrt(t, "checkpoint", "verify", dir, "--json"), 0); !v.OK || v.Parts < 12 || len(v.Problems) != 0 || len(v.Models) != 0 { // the newest is for serving
		t.Errorf("%+v", v)
	}
	found, err := filepath.Glob(filepath.Join(dir, "parts-0000000002-*", "t1-*.part"))
	if err != nil || len(found) == 0 {
		t.Fatal(err, found)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(found[0], b, 0o666); err != nil {
		t.Fatal(err)
	}
	v := decoded[verdict](t, psrt(t, "checkpoint", "verify", dir, "--json"), 2)
	if v.OK || len(v.Problems) != 1 || v.Problems[0].Generation != 2 || v.Problems[0].Path != found[0] {
		t.Errorf("a flipped bit in %s: %+v", found[0], v)
	}
	if o := psrt(t, "checkpoint", "verify", dir); o.code != 2 || !strings.Contains(o.stderr, found[0]) || o.stdout != "" {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
}

func TestCheckpointDiff(t *testing.T) {
	dir := goldenHistory(t)
	type difference struct {
		Before, After string
		Tables        []struct {
			Before, After, Added, Changed, Deleted int64
			Largest                                []struct{ Key uint64 }
		}
	}
	d := decoded[difference](t, psrt(t, "checkpoint", "diff", dir+"@1", dir+"@3", "--top", "2", "--json"), 0)
	if len(d.Tables) != 2 || !strings.HasSuffix(d.Before, "@1") || !strings.HasSuffix(d.After, "@3") {
		t.Fatalf("%+v", d)
	}
	for _, x := range d.Tables {
		if x.Before-x.Deleted+x.Added != x.After || x.Added == 0 || len(x.Largest) != int(min(2, x.Changed)) {
			t.Errorf("%+v", x)
		}
	}
	back := decoded[difference](t, psrt(t, "checkpoint", "diff", dir+"@3", dir+"@1", "--json"), 0)
	if a, b := d.Tables[0], back.Tables[0]; a.Added != b.Deleted || a.Deleted != b.Added || a.Changed != b.Changed {
		t.Errorf("there %+v, back %+v", a, b)
	}
	if o := psrt(t, "checkpoint", "diff", dir); o.code != 0 || !strings.Contains(o.stdout, "@3 to ") || !strings.Contains(o.stdout, "@4") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
	if o := psrt(t, "checkpoint", "diff", dir+"@1"); o.code != 2 || !strings.Contains(o.stderr, "nothing before") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
}

func TestCheckpointMerge(t *testing.T) {
	dir := goldenHistory(t)
	g := decoded[generation](t, psrt(t, "checkpoint", "merge", dir+"@3", "--keep", "1", "--json"), 0)
	if g.Number != 5 || g.Merged != 3 || g.Kind != "base" || g.Step != 3 || g.Rows == 0 {
		t.Errorf("%+v", g)
	}
	if o := psrt(t, "checkpoint", "verify", dir); o.code != 0 || !strings.Contains(o.stdout, g.Digest) {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
	if got := decoded[listed](t, psrt(t, "checkpoint", "ls", dir, "--json"), 0).Generations; len(got) != 1 || got[0].Number != 5 || got[0].Digest != g.Digest {
		t.Errorf("left are %+v", got)
	}
}

func TestCheckpointBadInput(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"ls"}, "0 places"},
		{[]string{"ls", empty}, "no model there"},
		{[]string{"verify", empty}, "no model there"},
		{[]string{"diff", empty}, "no model there"},
		{[]string{"merge", empty}, "no history"},
		{[]string{"ls", "checkpoint_test.go"}, "not a directory"},
		{[]string{"verify", filepath.Join(empty, "nothere")}, "no model there"},
		{[]string{"merge", "../../tiers/ckpt/testdata/format1"}, "no history"},
		{[]string{"verify", empty, "--threads", "0"}, "--threads 0"},
		{[]string{"diff", empty, empty, empty}, "3 places"},
		{[]string{"prune", empty}, `no command "prune"`},
		{[]string{"ls", "--jason"}, "did you mean --json"},
		{[]string{"diff", goldenHistory(t) + "@9"}, "generation 9"},
	} {
		o := psrt(t, append([]string{"checkpoint"}, c.args...)...)
		if o.code != 2 || !strings.Contains(o.stderr, c.says) || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%v: exit %d: %s%s, want %q", c.args, o.code, o.stdout, o.stderr, c.says)
		}
	}
	if list, err := os.ReadDir(empty); err != nil || len(list) != 0 {
		t.Errorf("%v was left in %s: %v", list, empty, err)
	}
}
