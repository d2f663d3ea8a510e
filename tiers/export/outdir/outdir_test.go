package outdir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// save writes version v: two files, one of them of several megabytes.
func save(d disk, dir string, v int) error {
	in, err := begin(d, dir)
	if err != nil {
		return err
	}
	defer in.Abort()
	if err := os.WriteFile(filepath.Join(in.Path(), "spill"), []byte("scratch"), 0o666); err != nil {
		return err
	}
	for i := range 2 {
		f, err := in.Create(fmt.Sprintf("file%d.rows", i))
		if err != nil {
			return err
		}
		for range 1 + i*15_000 {
			fmt.Fprintf(f, "version %d\n", v)
		}
		if _, err := f.Close(); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(in.Path(), "spill")); err != nil {
		return err
	}
	return in.Commit("test", 1, fmt.Appendf(nil, "%d", v))
}

// version is that of a whole export, or an error.
func version(dir string) (v int, err error) {
	e, err := Open(dir)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	if err := e.Verify(context.Background()); err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(string(e.Content), &v); err != nil {
		return 0, err
	}
	f, err := e.Open("file1.rows")
	if err != nil {
		return v, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if want := strings.Repeat(fmt.Sprintf("version %d\n", v), 15_001); err == nil && string(b) != want {
		err = fmt.Errorf("file1 of version %d holds something else", v)
	}
	return v, err
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestReplace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "er", "out")
	for v := 1; v <= 3; v++ {
		check(t, save(osDisk{}, dir, v))
		got, err := version(dir)
		check(t, err)
		if got != v {
			t.Errorf("version %d is there, want %d", got, v)
		}
		if got := names(t, filepath.Dir(dir)); !slices.Equal(got, []string{"out"}) {
			t.Errorf("beside it lie %v", got)
		}
		if got := names(t, dir); !slices.Equal(got, []string{ManifestName, "file0.rows", "file1.rows"}) {
			t.Errorf("it holds %v", got)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	check(t, os.Mkdir(empty, 0o777))
	check(t, save(osDisk{}, empty, 1))
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(dir, link))
	check(t, save(osDisk{}, link, 9))
	if v, err := version(dir); v != 9 || err != nil {
		t.Errorf("through a link: version %d, %v", v, err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
}

func TestRefusesWhatIsNotAnExport(t *testing.T) {
	root := t.TempDir()
	write := func(name string) string {
		p := filepath.Join(root, name)
		check(t, os.MkdirAll(filepath.Dir(p), 0o777))
		check(t, os.WriteFile(p, []byte("mine"), 0o666))
		return p
	}
	write("photos/a.jpg")
	check(t, save(osDisk{}, filepath.Join(root, "mixed"), 1))
	write("mixed/notes.txt")
	write("broken/" + ManifestName)
	for name, says := range map[string]string{"photos": "a.jpg", "mixed": "notes.txt", "broken": "damaged", "photos/a.jpg": "choose a directory"} {
		if _, err := Begin(filepath.Join(root, name)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Begin(%s): %v, want an error with %q", name, err, says)
		}
	}
	in, err := Begin(filepath.Join(root, "later")) // a file that comes while the export is written
	check(t, err)
	write("later/letter.txt")
	if err := in.Commit("test", 1, []byte("1")); err == nil || !strings.Contains(err.Error(), "letter.txt") {
		t.Errorf("Commit over a letter: %v", err)
	}
	if got := names(t, filepath.Join(root, "later")); !slices.Equal(got, []string{"letter.txt"}) {
		t.Errorf("later holds %v", got)
	}
}

func TestMisuse(t *testing.T) {
	in, err := Begin(filepath.Join(t.TempDir(), "out"))
	check(t, err)
	for _, bad := range []string{"", "../x", ".hidden", "-x", "a/b", "ä", strings.Repeat("a", 201)} {
		if _, err := in.Create(bad); err == nil {
			t.Errorf("file name %q is accepted", bad)
		}
	}
	f, err := in.Create("a")
	check(t, err)
	if _, err := in.Create("a"); err == nil {
		t.Error("two files have one name")
	}
	if err := in.Commit("test", 1, []byte("1")); err == nil || !strings.Contains(err.Error(), "not closed") {
		t.Errorf("Commit with an open file: %v", err)
	}
	_, _ = f.Close()
	if err := in.Commit("test", 1, []byte("1")); err == nil {
		t.Error("committed after it failed")
	}
	check(t, in.Abort())
}

func TestTwoAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	done := make(chan error, 8)
	for v := range cap(done) {
		go func() { done <- save(quick{}, dir, v) }()
	}
	for range cap(done) {
		check(t, <-done)
	}
	if _, err := version(dir); err != nil {
		t.Error(err)
	}
	if got := names(t, filepath.Dir(dir)); !slices.Equal(got, []string{"out"}) {
		t.Errorf("left are %v", got)
	}
}

// TestReadersKeepTheirs: what was opened is read to its end after it was
// replaced, and what was not opened is refused as such.
func TestReadersKeepTheirs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	check(t, save(quick{}, dir, 1))
	e, err := Open(dir)
	check(t, err)
	defer e.Close()
	f, err := e.Open("file0.rows")
	check(t, err)
	defer f.Close()
	check(t, save(quick{}, dir, 2))
	if b, err := io.ReadAll(f); string(b) != "version 1\n" || err != nil {
		t.Errorf("a file that was open has %q, %v", b, err)
	}
	if _, err := e.Open("file1.rows"); !errors.Is(err, ErrReplaced) {
		t.Errorf("a file of an export that was replaced: %v", err)
	}
}

func TestDamageIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	check(t, save(osDisk{}, dir, 1))
	for _, name := range []string{ManifestName, "file0.rows"} {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		check(t, err)
		for i := range good {
			bit := 8*i + i%8
			bad := bytes.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			check(t, os.WriteFile(path, bad, 0o666))
			if _, err := version(dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Fatalf("%s with bit %d flipped: %v", name, bit, err)
			}
		}
		for _, bad := range [][]byte{nil, good[:len(good)-1], append(bytes.Clone(good), 0)} {
			check(t, os.WriteFile(path, bad, 0o666))
			if _, err := version(dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %d bytes: %v", name, len(bad), err)
			}
		}
		check(t, os.WriteFile(path, good, 0o666))
	}
	check(t, os.Remove(filepath.Join(dir, "file0.rows")))
	if _, err := Open(dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "file0.rows") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("Open of nothing: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	check(t, save(osDisk{}, filepath.Join(t.TempDir(), "x"), 1))
	check(t, os.WriteFile(filepath.Join(dir, "file0.rows"), []byte("version 1\n"), 0o666))
	e, err := Open(dir)
	check(t, err)
	defer e.Close()
	if err := e.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled verification: %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	m := Manifest{Kind: "test", Format: 1, Content: []byte("{}"), Files: []FileInfo{{"a", 3, strings.Repeat("0", 64)}}}
	b, err := m.render()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest("m", b)
		if err != nil {
			return
		}
		if m.Content == nil {
			m.Content = []byte("null")
		}
		again, err := m.render()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseManifest("m", again); err != nil {
			t.Fatal(err)
		}
	})
}
