package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/sched/train"
)

// TestHeterEmptyShares: every second step has one example, so that most workers have none
// in it. Those ask no server for rows and are ahead of the others by that step; whoever
// has the layers of both must go on with the step that is behind. The model is the same.
func TestHeterEmptyShares(t *testing.T) {
	dir := t.TempDir()
	all := filepath.Join(dir, "all.libffm")
	if o := psrt(t, "gen", "zipf", "--rows", "100", "--fields", "6", "--vocab", "300", "--seed", "3", "--out", all); o.code != 0 {
		t.Fatal(o.stderr)
	}
	text, err := os.ReadFile(all)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "train.libffm")
	if err := os.WriteFile(data, []byte(strings.Join(strings.SplitAfter(string(text), "\n")[:65], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args string) (res train.Result) {
		t.Helper()
		o := psrt(t, append([]string{"train", "--data", data, "--model", "deepfm", "--hidden", "16", "--dim", "4", "--batch", "64", "--workers", "4", "--threads", "1", "--epochs", "12", "--quiet", "--json"}, strings.Fields(args)...)...)
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || o.code != 0 {
			t.Fatalf("%s: exit %d: %v: %s", args, o.code, err, o.stderr)
		}
		return res
	}
	if whole, halves := run("--sync bsp"), run("--sync bsp --heter --dense-ranks 2"); whole.Digest != halves.Digest || whole.Digest == "" {
		t.Errorf("in bsp the digest is %s, with dense ranks %s", whole.Digest, halves.Digest)
	}
	if r := run("--sync ssp --staleness 1 --heter --dense-ranks 2"); r.Examples != 65*12 {
		t.Errorf("in ssp %d examples were trained, want %d", r.Examples, 65*12)
	}
}
