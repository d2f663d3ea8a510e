package job

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/sched/dataset"
	"psrt/sched/train"
)

// A job that goes on from a checkpoint refuses files that have changed under their names, and
// names the one that has; a copy of the same content is no change.
func TestResumeKnowsItsFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	j := *sampleJob(t, "lr")
	text, err := os.ReadFile(j.Data[0])
	if err != nil {
		t.Fatal(err)
	}
	half := len(text)/2 + strings.IndexByte(string(text[len(text)/2:]), '\n') + 1
	valid, err := os.ReadFile(j.Test[0])
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"data/a": text[:half], "data/b": text[half:], "valid": valid}
	// put writes all files anew, but for what a case changes.
	put := func(changes map[string][]byte) {
		t.Helper()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		all := map[string][]byte{}
		for name, text := range files {
			all[name] = text
		}
		for name, text := range changes {
			all[name] = text
		}
		for name, text := range all {
			if text == nil {
				continue
			}
			path := filepath.Join(filepath.Dir(dir), name)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	j.Data, j.Valid, j.Test = []string{dir}, []string{filepath.Join(filepath.Dir(dir), "valid")}, nil
	j.Dataset, j.Shuffle, j.Servers, j.Workers, j.Patience = "queue", false, 1, 2, 0
	j.Out = filepath.Join(t.TempDir(), "model")
	put(nil)
	whole := j
	whole.Epochs = 2
	want := run(t, whole, "shm")
	j.Epochs = 1
	j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 2, Resume: true, Deltas: 1}
	if res := run(t, j, "shm"); res.Checkpoints.Written == 0 || res.Checkpoints.Failed > 0 {
		t.Fatalf("%+v", *res.Checkpoints)
	}
	j.Epochs = 2
	flipped := append([]byte(nil), text[half:]...)
	flipped[0] ^= 1 // '0' and '1'
	for _, c := range []struct {
		name, path string
		changes    map[string][]byte
		want       string
	}{
		{"a label", filepath.Join(dir, "b"), map[string][]byte{"data/b": flipped}, "has as many now"},
		{"more rows", filepath.Join(dir, "a"), map[string][]byte{"data/a": append(text[:half:half], text[half:]...)}, "bytes were added to its end"},
		{"fewer rows", filepath.Join(dir, "b"), map[string][]byte{"data/b": text[half : len(text)-len(text)/4]}, "b has changed: it had "},
		{"another file", filepath.Join(dir, "c"), map[string][]byte{"data/c": text}, "has come to the files"},
		{"one file less", filepath.Join(dir, "b"), map[string][]byte{"data/b": nil}, "is not among the files any more"},
		{"other validation rows", filepath.Join(filepath.Dir(dir), "valid"), map[string][]byte{"valid": append(valid[:len(valid):len(valid)], valid...)}, "--valid: "},
	} {
		put(c.changes)
		var bad *train.InputError
		if _, err := RunInProcess(t.Context(), &j, "shm", nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q of %s", c.name, err, c.want, c.path)
		}
	}
	put(map[string][]byte{"data/0": []byte("\n"), "data/z.tmp": text}) // files without rows are none
	if res := run(t, j, "shm"); res.Checkpoints.ResumedFrom == 0 || res.Digest != want.Digest {
		t.Errorf("with copies: resumed from %d, digest %s, want %s", res.Checkpoints.ResumedFrom, res.Digest, want.Digest)
	}
}

// A rank whose files are not those that the job was described with does not begin.
func TestRanksReadTheSameFiles(t *testing.T) {
	t.Parallel()
	j := *sampleJob(t, "lr")
	j.Epochs = 1
	src, err := dataset.Open(t.Context(), j.Data, j.Reading)
	if err != nil {
		t.Fatal(err)
	}
	files := src.Identities()
	files[0].MTime, files[0].Inode = 1, 1 // as on another host
	j.Files.Data = dataset.NewFileSet(files)
	if _, err := RunInProcess(t.Context(), &j, "shm", nil); err != nil {
		t.Fatalf("a copy: %v", err)
	}
	for _, set := range []func(*train.Files, *dataset.FileSet){
		func(f *train.Files, s *dataset.FileSet) { f.Data = s },
		func(f *train.Files, s *dataset.FileSet) { f.Test = s },
	} {
		other := j
		other.Files = train.Files{}
		files[0].Size++
		set(&other.Files, dataset.NewFileSet(files))
		var bad *train.InputError
		if _, err := RunInProcess(t.Context(), &other, "shm", nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), j.Data[0]) {
			t.Errorf("another file: %v", err)
		}
	}
}
