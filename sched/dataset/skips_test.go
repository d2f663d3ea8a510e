package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// parquetOf is a Parquet file of clicks and prices, of as many rows as asked for.
func parquetOf(t testing.TB, rows int) []byte {
	t.Helper()
	type row struct {
		Click int32 `parquet:"click"`
		Price int32 `parquet:"price"`
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[row](&out)
	if _, err := w.Write(make([]row, rows)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const priced = "columns:\n  - {name: click, kind: label}\n  - {name: price, kind: numeric, transform: standardize}\n"

// without are files that hold no row, by the name that they have in a directory.
func without(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"a-zero":        nil,
		"a-newline":     []byte("\n"),
		"a-blank":       []byte(" \r\n\t\n"),
		"a-bom":         []byte("\xef\xbb\xbf"),
		"a-empty.gz":    compressed(t, "gz", nil),
		"a-newline.gz":  compressed(t, "gz", []byte("\n")),
		"a-empty.zst":   compressed(t, "zst", nil),
		"a-empty.lz4":   compressed(t, "lz4", nil),
		"a-legacy.lz4":  legacyLZ4(t, nil),
		"a-skippable":   skippable(0, "abc"),
		"a-header":      []byte("click,price\n"),
		"a-header.gz":   compressed(t, "gz", []byte("click,price\n\n")),
		"a-none":        parquetOf(t, 0),
		"x.tmp":         []byte("1,1\n"),
		"x.inprogress":  []byte("1,1\n"),
		"x~":            []byte("1,1\n"),
		".hidden":       []byte("1,1\n"),
		"._x.crc":       []byte("\x00"),
		"_SUCCESS":      nil,
		"_metadata.txt": []byte("prose"),
	}
}

// A file without rows that a directory or a pattern brought is passed over, first or last, and
// one line counts and names it. Named itself, or alone, it is refused.
func TestSkips(t *testing.T) {
	schema := schemaOf(t, priced)
	open := func(paths ...string) (*Source, error) {
		return Open(t.Context(), paths, Options{Schema: schema})
	}
	for name, text := range without(t) {
		dir := t.TempDir()
		put := func(name string, text []byte) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		path := put(name, text)
		byName := !strings.HasPrefix(name, "a-")
		for _, alone := range []string{dir, filepath.Join(dir, "*")} {
			if _, err := open(alone); err == nil || !strings.Contains(err.Error(), name) || !strings.HasPrefix(err.Error(), alone+": ") {
				t.Errorf("%s alone in %s: %v", name, alone, err)
			} else if bad := (*Error)(nil); !errors.As(err, &bad) || !byName && !errors.Is(err, ErrNoRows) {
				t.Errorf("%s alone in %s: %T %v", name, alone, err, err)
			}
		}
		rows := put("m-rows.csv", []byte("click,price\n1,1\n0,3\n"))
		second := put("n-rows.csv", []byte("0,5\n"))
		for _, from := range []string{dir, filepath.Join(dir, "*")} {
			src, err := open(from)
			if err != nil {
				t.Errorf("%s in %s: %v", name, from, err)
				continue
			}
			d := src.Describe()
			if want := fmt.Sprintf("skipped 1 of the 3 file(s) in %s: %s (", from, name); len(d.Notes) == 0 || !strings.HasPrefix(d.Notes[0], want) || strings.Contains(d.Notes[0], "\n") {
				t.Errorf("%s in %s: %q, want %s", name, from, d.Notes, want)
			}
			if !slices.Equal(d.Files, []string{rows, second}) || d.Bytes != 24 || d.SniffedRows != 3 || *src.Options().Schema.Columns[1].Mean != 2 {
				t.Errorf("%s in %s: %+v", name, from, d)
			}
			if got, err := rowsIn(t, src, Whole(2, 2), ReaderOptions{}); err != nil || len(got) != 3 {
				t.Errorf("%s in %s: %q, %v", name, from, got, err)
			}
		}
		if byName {
			continue
		}
		if _, err := open(dir, path); !errors.Is(err, ErrNoRows) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s named: %v", name, err)
		}
	}
}

// What cannot be read is refused however it came, and the rest of what is named beside it.
func TestSkipsNoBadFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string][]byte{"a": []byte("1 0:1:1\n"), "b.gz": compressed(t, "gz", []byte("1 0:1:1\n"))[:20], "x.tmp": []byte("0 0:1:1\n"), "_part": []byte("0 0:1:1\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(t.Context(), []string{dir}, Options{}); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("a truncated file in a directory: %v", err)
	}
	for _, c := range []struct{ path, want string }{{"x.tmp", "x.tmp"}, {"_part", "_part"}, {"*.tmp", "x.tmp"}, {"_*", "_part"}, {"a*", "a"}} {
		src, err := Open(t.Context(), []string{filepath.Join(dir, c.path)}, Options{})
		if err != nil || !slices.Equal(src.Describe().Files, []string{filepath.Join(dir, c.want)}) || len(src.Describe().Notes) != 0 {
			t.Errorf("%s: %v", c.path, err)
		}
	}
}

// What a directory has that is no plain file is counted and named.
func TestSkipsKinds(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.WriteFile(at("a"), []byte("1 0:1:1\n"), 0o600), os.Mkdir(at("day=1"), 0o700), os.Symlink("nowhere", at("l")), syscall.Mkfifo(at("p"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	src, err := Open(t.Context(), []string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := "skipped 3 of the 4 file(s) in " + dir + ": day=1 (a directory, which is not looked into); l (a link to nothing); p (a pipe, socket or device)"
	if got := src.Describe(); len(got.Files) != 1 || !slices.Equal(got.Notes, []string{want}) {
		t.Errorf("%q, %q", got.Files, got.Notes)
	}
}

// The error about a line names the separator by which it has the schema's cells, and that about a file of comments says so.
func TestWhatALineLacks(t *testing.T) {
	for text, want := range map[string]string{"1;u;i\n0;u;i\n": `set separator: ";" in the schema, by which it has 3`, "1,u;i\n": "mend the line or the schema", "# a\n#b\n": "the file has 2 comment line(s)"} {
		_, err := Open(t.Context(), []string{file(t, "x", []byte(text))}, Options{Schema: schemaOf(t, clicksYAML)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(want, "mend") && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestSkipsLine(t *testing.T) {
	s := skips{seen: 30}
	for i := range 12 {
		s.add(listed{fmt.Sprintf("/d/part-%02d", i), "/d"}, asideEmpty)
	}
	s.add(listed{"/e/_SUCCESS", "/e"}, asideHidden)
	want := "skipped 13 of the 30 file(s) in /d, /e: part-00, part-01, part-02, part-03 and 8 more (empty); _SUCCESS (hidden or a marker by the name)"
	if got := s.line(); got != want {
		t.Errorf("%q", got)
	}
	if got := (&skips{seen: 3}).line(); got != "" {
		t.Errorf("%q", got)
	}
}

// A pipe command that gives no row for a file of a directory is passed over, too.
func TestSkipsPipe(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "", "b": "1 0:1:1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	src, err := Open(t.Context(), []string{dir}, Options{Pipe: "cat"})
	if err != nil || !strings.Contains(strings.Join(src.Describe().Notes, "\n"), "a (no row from the pipe command)") {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), []string{filepath.Join(dir, "a")}, Options{Pipe: "cat"}); !errors.Is(err, ErrNoRows) {
		t.Errorf("named: %v", err)
	}
}

// A stream's first files may all be empty.
func TestOpenFound(t *testing.T) {
	none, rows := file(t, "a", nil), file(t, "b", []byte("1 0:1:1\n"))
	if _, err := OpenFound(t.Context(), "dir", []Arrival{{Path: none}}, Options{}); !errors.Is(err, ErrNoRows) {
		t.Errorf("nothing but an empty file: %v", err)
	}
	src, err := OpenFound(t.Context(), "dir", []Arrival{{Path: none}, {Path: rows}}, Options{})
	if err != nil || !slices.Equal(src.Describe().Files, []string{rows}) {
		t.Errorf("an empty file first: %v", err)
	}
	if _, err := OpenFound(t.Context(), "dir", nil, Options{}); !errors.Is(err, ErrNoRows) {
		t.Errorf("no file: %v", err)
	}
}

// A compressed file is known by its content where memory is guessed.
func TestFitsMemoryByContent(t *testing.T) {
	for _, c := range []struct {
		name string
		text []byte
		opts Options
		want bool
	}{
		{"x.gz", []byte(ffmText), Options{}, false},
		{"x.txt", compressed(t, "gz", []byte(ffmText)), Options{}, true},
		{"y.txt", compressed(t, "gz", []byte(ffmText)), Options{Pipe: "gzip -dc"}, true},
	} {
		src, err := Open(t.Context(), []string{file(t, c.name, c.text)}, c.opts)
		if err != nil || src.packed != c.want {
			t.Errorf("%s: compressed %v, %v", c.name, src != nil && src.packed, err)
		}
	}
}
