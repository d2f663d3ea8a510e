package outfile

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func write(t *testing.T, name, text string, keep bool) {
	t.Helper()
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	if err := f.End(keep); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	write(t, name, "one", true)
	write(t, name, "two", false)
	if got := text(t, name); got != "one" {
		t.Errorf("%q", got)
	}
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	write(t, link, "three", true)
	if at, err := os.Lstat(link); err != nil || at.Mode()&os.ModeSymlink == 0 || text(t, name) != "three" {
		t.Errorf("%v %v, behind it %q", at, err, text(t, name))
	}
	Remove(name)
	Remove(name)
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "nope", "a")} {
		if _, err := Create(bad); err == nil {
			t.Errorf("%s is written", bad)
		}
	}
}

// What is no plain file stays what it is.
func TestPipesAndDevices(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		b, _ := os.ReadFile(pipe)
		got <- string(b)
	}()
	write(t, pipe, "through", true)
	if s := <-got; s != "through" {
		t.Errorf("%q", s)
	}
	if _, err := Create(pipe); err == nil { // the reader has gone
		t.Error("a pipe that nobody reads is opened")
	}
	write(t, os.DevNull, "nowhere", true)
	write(t, os.DevNull, "nowhere", false)
	Remove(pipe)
	Remove(os.DevNull)
	for _, name := range []string{pipe, os.DevNull} {
		if at, err := os.Stat(name); err != nil || at.Mode().IsRegular() {
			t.Errorf("%s is %v, %v", name, at, err)
		}
	}
}
