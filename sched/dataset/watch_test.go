package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	put := func(name, text string, age time.Duration) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	w := NewWatch([]string{dir}, 3*time.Second)
	done := map[string]bool{}
	look := func(want ...string) {
		t.Helper()
		got, err := w.Look(now, func(p string) bool { return done[filepath.Base(p)] })
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, a := range got {
			names = append(names, filepath.Base(a.Path))
		}
		if !slices.Equal(names, want) {
			t.Errorf("found %q, want %q", names, want)
		}
	}
	look()
	put("b", "1", 2*time.Minute)
	put("a", "1", 10*time.Second) // maybe by another clock
	for _, name := range []string{".a", "_SUCCESS", "x.tmp", "y.part", "z~"} {
		put(name, "1", time.Hour)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	look("b")
	now = now.Add(2 * time.Second)
	put("a", "12", 0) // still being written
	look("b")
	now = now.Add(2 * time.Second)
	look("b")
	now = now.Add(time.Second)
	look("a", "b")
	done["a"] = true
	put("c", "1", 0)
	look("b")
	if err := os.Rename(filepath.Join(dir, "x.tmp"), filepath.Join(dir, "x")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(3 * time.Second)
	look("b", "c", "x")
	if len(w.seen) != 3 {
		t.Errorf("%d files are remembered", len(w.seen))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Look(now, func(string) bool { return false }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is gone: %v", err)
	}
}

// A file that several paths stand for is one; a name that no log can keep is refused.
func TestWatchOverlaps(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().Add(time.Hour)
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := NewWatch([]string{dir, filepath.Join(dir, "*"), dir + "/./a"}, time.Second)
	never := func(string) bool { return false }
	got, err := w.Look(now, never)
	if err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b\xff"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Look(now, never); err == nil {
		t.Error("a name that is not UTF-8 was taken")
	}
}

// A file that was seen without bytes is whole once it has some.
func TestWatchEmptyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "part-1")
	w, now := NewWatch([]string{dir}, time.Second), time.Now().Add(time.Hour)
	look := func() []Arrival {
		t.Helper()
		now = now.Add(2 * time.Second)
		got, err := w.Look(now, func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, text := range []string{"", "1 1:1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		look()
		if got := look(); (len(got) == 1) != (text != "") {
			t.Errorf("%d bytes: %v", len(text), got)
		}
	}
}
