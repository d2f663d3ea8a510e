package train

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlacesAreRefused: a job that would begin anew where another run has saved is refused, by the place's
// name and with both remedies; --resume, --begin-anew and unused places are not.
func TestPlacesAreRefused(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("used/MANIFEST-0000000003.json")
	put("headless/HEAD") // damaged, and all that is left
	put("model/MANIFEST.json")
	log := put("stream.log")
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		job  Job
		says []string // nil: it may begin
	}{
		"checkpoints":            {Job{Checkpoint: &Checkpoint{Dir: at("used")}}, []string{at("used"), "newest is 3", "--resume", "--begin-anew"}},
		"a damaged HEAD":         {Job{Checkpoint: &Checkpoint{Dir: at("headless")}}, []string{at("headless"), "--begin-anew"}},
		"a model":                {Job{Checkpoint: &Checkpoint{Dir: at("model")}}, []string{at("model"), "another directory"}},
		"models for serving":     {Job{Serving: at("used")}, []string{at("used"), "--begin-anew", "--serving"}},
		"the log of a stream":    {Job{Stream: &Stream{Log: log}}, []string{log, "--begin-anew", "--stream-log"}},
		"unused":                 {Job{Checkpoint: &Checkpoint{Dir: at("new")}, Serving: at("new"), Stream: &Stream{Log: at("new.log")}}, nil},
		"resumed":                {Job{Checkpoint: &Checkpoint{Dir: at("used"), Resume: true}, Serving: at("used"), Stream: &Stream{Log: log}}, nil},
		"anew, on purpose":       {Job{BeginAnew: true, Checkpoint: &Checkpoint{Dir: at("used")}, Serving: at("used"), Stream: &Stream{Log: log}}, nil},
		"nothing is to be saved": {Job{}, nil},
	} {
		err := c.job.CheckPlaces(t.Context())
		var bad *InputError
		if c.says == nil && err != nil || c.says != nil && !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range c.says {
			if err != nil && !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q lacks %q", name, err, s)
			}
		}
	}
}

// TestStreamLogIsKept: a stream that begins anew leaves the log of the one before under another name.
func TestStreamLogIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stream.log")
	for n, text := range []string{"first", "second"} {
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o644), keepStreamLog(path)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path + []string{".1", ".2"}[n]); err != nil || string(b) != text {
			t.Errorf("log %d is kept as %q, %v", n+1, b, err)
		}
	}
	if err := keepStreamLog(path); err != nil {
		t.Errorf("no log: %v", err)
	}
}
