package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"psrt/sched/train"
)

// What is clipped does not depend on how many workers there are.
func TestClip(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "train.libffm")
	if o := psrt(t, "gen", "zipf", "--rows", "8000", "--fields", "6", "--vocab", "300", "--seed", "3", "--out", data); o.code != 0 {
		t.Fatal(o.stderr)
	}
	digest := func(args string) string {
		t.Helper()
		var res train.Result
		o := psrt(t, append([]string{"train", "--data", data, "--model", "deepfm", "--hidden", "16", "--batch-norm", "--dim", "8", "--batch", "800", "--sync", "bsp", "--threads", "1", "--quiet", "--json"}, strings.Fields(args)...)...)
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || o.code != 0 {
			t.Fatalf("%s: exit %d: %v: %s", args, o.code, err, o.stderr)
		}
		return res.Digest
	}
	seen := map[string]string{digest("--workers 1"): "no clipping"}
	for _, clip := range []string{"--clip-norm .05", "--clip-value .001", "--clip-norm .005 --clip-value .001"} {
		one := digest("--workers 1 " + clip)
		if two := digest("--workers 2 --servers 2 " + clip); two != one {
			t.Errorf("%s: another model with two workers", clip)
		}
		if seen[one] != "" {
			t.Errorf("%s: the model of %s", clip, seen[one])
		}
		seen[one] = clip
	}
	if loose := digest("--workers 1 --clip-norm 1e9 --clip-value 1e9"); seen[loose] != "no clipping" {
		t.Error("bounds that nothing reaches change the model")
	}
	for _, bad := range []string{"--clip-norm -1", "--clip-value NaN", "--clip-value +Inf"} {
		if o := psrt(t, append([]string{"train", "--data", data}, strings.Fields(bad)...)...); o.code != 2 || !strings.Contains(o.stderr, "want a number above 0") {
			t.Errorf("%s: exit %d: %s", bad, o.code, o.stderr)
		}
	}
}

// In asp, where a lane adds what waits for the same row, the worker is named whose
// gradients are not finite, and the table; clipping hides none.
func TestNotFiniteNamesItsWorker(t *testing.T) {
	var text strings.Builder
	for range 40 {
		text.WriteString(strings.Repeat("1 0:1 1:1\n-1 0:1 2:1\n", 8))
		text.WriteString(strings.Repeat("1e30 3:1e30 4:1\n-1e30 3:1 4:1e30\n", 8))
	}
	data := write(t, t.TempDir(), "wild.libfm", text.String())
	for _, more := range []string{"", "--clip-norm 1 --clip-value 1"} {
		o := psrt(t, append([]string{"train", "--data", data, "--task", "regression", "--model", "fm", "--batch", "32", "--workers", "2", "--no-shuffle", "--sync", "asp"}, strings.Fields(more)...)...)
		if o.code != 1 || !strings.Contains(o.stderr, "train: worker 1, epoch 1") || !strings.Contains(o.stderr, "rows of table embedding are not finite") || strings.Contains(o.stderr, "train: worker 0, ") {
			t.Errorf("%q: exit %d: %s", more, o.code, o.stderr)
		}
	}
}
