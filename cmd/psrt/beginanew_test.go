package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/sched/train"
)

// TestUsedPlacesAreRefused: what would begin anew where a model or checkpoints are, and names that end in @N where something
// is to be written, end with exit code 2, one line and nothing written.
func TestUsedPlacesAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, token := write(t, dir, "train.libffm", rows(100, 1)), write(t, dir, "token", strings.Repeat("x", 32))
	used, model := filepath.Join(dir, "ck"), filepath.Join(dir, "model")
	if err := errors.Join(os.Mkdir(used, 0o755), os.Mkdir(model, 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, used, "MANIFEST-0000000002.json", "x")
	write(t, model, "MANIFEST.json", "x")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"--begin-anew", []string{"train", "--data", data, "--checkpoint", used}},
		{"give one of them", []string{"train", "--data", data, "--checkpoint", used, "--resume", "--begin-anew"}},
		{"--resume goes on", []string{"train", "--data", data, "--checkpoint", used + "@2"}},
		{"is no generation of", []string{"train", "--data", data, "--checkpoint", used + "@0", "--resume"}},
		{"is no generation of", []string{"train", "--data", data, "--checkpoint", used + "@latest"}},
		{"--resume goes on", []string{"train", "--data", data, "--checkpoint", used + "@2/"}},
		{"does not end in @2", []string{"train", "--data", data, "--out", filepath.Join(dir, "m@2")}},
		{"has no effect", []string{"train", "--data", data, "--begin-anew"}},
		{"--load " + model, []string{"serve", "--token-file", token, "--listen", "127.0.0.1:0", "--save", model}},
		{"does not end in @1", []string{"serve", "--token-file", token, "--listen", "127.0.0.1:0", "--save", model + "@1"}},
		{"does not end in @3", []string{"export", "--checkpoint", model, "--out", filepath.Join(dir, "e@3")}},
	} {
		if o := psrt(t, c.args...); o.code != 2 || !strings.Contains(o.stderr, c.says) || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%q: exit %d, want %q in %q", c.args, o.code, c.says, o.stderr)
		}
	}
	if made, err := filepath.Glob(filepath.Join(dir, "*@*")); err != nil || len(made) > 0 {
		t.Errorf("%v are made (%v)", made, err)
	}
	if left, err := os.ReadDir(used); err != nil || len(left) != 1 {
		t.Errorf("%s has %v (%v)", used, left, err)
	}
}

// TestUnsavedIsAnError: a job whose last checkpoint or model for serving failed has an error for its exit code.
func TestUnsavedIsAnError(t *testing.T) {
	if err := unsaved(&train.Result{Checkpoints: &train.Checkpoints{Failed: 3, Newest: 4}, Life: &train.Life{Serving: &train.Serving{Failed: 1}}}); err != nil {
		t.Errorf("some failed, the last did not: %v", err)
	}
	err := unsaved(&train.Result{Checkpoints: &train.Checkpoints{Location: "ck", LastFailure: "no space", Newest: 4},
		Life: &train.Life{Serving: &train.Serving{Location: "served", LastFailure: "no room"}}})
	for _, says := range []string{"ck", "no space", "the newest is 4", "served", "no room"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v lacks %q", err, says)
		}
	}
}
