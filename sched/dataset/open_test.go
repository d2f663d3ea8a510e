package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
)

const ffmText = "1 0:1:1 1:2:.5\n0 0:3:1 1:4:1\n1 0:5:1\n"

// rowsOf reads all rows of the paths.
func rowsOf(t *testing.T, paths []string, opts Options) ([]string, error) {
	t.Helper()
	src, err := Open(t.Context(), paths, opts)
	if err != nil {
		return nil, err
	}
	return rowsIn(t, src, Whole(2, 2), ReaderOptions{})
}

// rowsIn reads one epoch of a share.
func rowsIn(t *testing.T, src *Source, share Share, opts ReaderOptions) ([]string, error) {
	t.Helper()
	r, err := src.NewReader(t.Context(), share, opts)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var rows []string
	for {
		step, err := r.Next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		for k := range step.Leaves {
			for i := range step.Leaves[k].Len() {
				rows = append(rows, rowText(&step.Leaves[k], i))
			}
		}
		step.Release()
	}
}

// The same three rows, whatever they are packed in and whatever the name says.
func TestPackings(t *testing.T) {
	want := []string{"1 0:1:1 1:2:0.5", "0 0:3:1 1:4:1", "1 0:5:1"}
	half := strings.Index(ffmText, "\n") + 1
	for _, c := range []struct {
		name string
		text []byte
	}{
		{"plain", []byte(ffmText)},
		{"misnamed.gz", []byte(ffmText)},
		{"no last newline", []byte(strings.TrimSuffix(ffmText, "\n"))},
		{"crlf", []byte(strings.ReplaceAll(ffmText, "\n", "\r\n"))},
		{"bom", []byte("\xef\xbb\xbf" + ffmText)},
		{"blank lines", []byte("\n \n" + strings.ReplaceAll(ffmText, "\n", "\n\t\r\n\n"))},
		{"a.gz", compressed(t, "gz", []byte(ffmText))},
		{"a.zst", compressed(t, "zst", []byte(ffmText))},
		{"a.lz4", compressed(t, "lz4", []byte(ffmText))},
		{"gz named.txt", compressed(t, "gz", []byte(ffmText))},
		{"two members.gz", append(compressed(t, "gz", []byte(ffmText[:half])), compressed(t, "gz", []byte(ffmText[half:]))...)},
		{"two frames.zst", append(compressed(t, "zst", []byte(ffmText[:half])), compressed(t, "zst", []byte(ffmText[half:]))...)},
		{"two frames.lz4", append(compressed(t, "lz4", []byte(ffmText[:half])), compressed(t, "lz4", []byte(ffmText[half:]))...)},
	} {
		got, err := rowsOf(t, []string{file(t, c.name, c.text)}, Options{})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// A compressed file cut anywhere is an error, whether Open meets it or Next.
func TestTruncated(t *testing.T) {
	var text bytes.Buffer
	r := seedtest.Rand(t)
	for range 3000 {
		fmt.Fprintf(&text, "1 0:%d:1\n", r.Uint64())
	}
	for _, kind := range []string{"gz", "zst", "lz4"} {
		whole := compressed(t, kind, text.Bytes())
		for _, cut := range []int{2, 3, 4, 5, 9, 20, len(whole) / 3, len(whole) - 9, len(whole) - 4, len(whole) - 1} {
			if kind != "gz" && cut < 4 {
				continue // not recognisable as compressed yet
			}
			path := file(t, "x."+kind, whole[:cut])
			rows, err := rowsOf(t, []string{path}, Options{})
			var e *Error
			if !errors.As(err, &e) || e.Path != path || !strings.Contains(e.Msg, "truncated") {
				t.Errorf("%s cut to %d of %d bytes: %d rows, error %v", kind, cut, len(whole), len(rows), err)
			}
		}
		if kind == "zst" {
			continue // the default frame has no checksum to tell a flipped bit
		}
		whole[len(whole)/2] ^= 0xff
		if rows, err := rowsOf(t, []string{file(t, "x."+kind, whole)}, Options{}); err == nil {
			t.Errorf("damaged %s: %d rows and no error", kind, len(rows))
		}
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.txt", "a.txt", "c,d.txt", ".hidden", "_SUCCESS", "sub/e.txt", "empty/.keep"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("1 1:1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(names ...string) string {
		for i, n := range names {
			names[i] = filepath.Join(dir, n)
		}
		return strings.Join(names, ",")
	}
	for _, c := range []struct {
		args []string
		want string // names, or an error if it holds a blank
	}{
		{[]string{in("b.txt", "a.txt")}, "b.txt a.txt,"},
		{[]string{in("b.txt"), in("a.txt")}, "b.txt a.txt,"},
		{[]string{in("c,d.txt")}, "c,d.txt,"},
		{[]string{in("*.txt")}, "a.txt b.txt c,d.txt,"},
		{[]string{in("")}, "a.txt b.txt c,d.txt,"},
		{[]string{in("sub", "a.txt")}, "sub/e.txt a.txt,"},
		{[]string{in("x.txt")}, "no such file"},
		{[]string{in("a.txt", "x.txt")}, "no such file"},
		{[]string{in("*.gz")}, "the pattern matches no file"},
		{[]string{in("[.txt")}, "not a valid pattern"},
		{[]string{in("empty")}, "the directory holds no data file"},
		{[]string{""}, "no such file"},
		{[]string{","}, "no data file given"},
		{nil, "no data file given"},
	} {
		var files []string
		found, err := expand(c.args, &skips{})
		for _, f := range found {
			files = append(files, f.path)
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: error %v, want %s", c.args, err, c.want)
		} else if err == nil {
			got := strings.ReplaceAll(strings.Join(files, " "), dir+"/", "") + ","
			if got != c.want {
				t.Errorf("%q: %s, want %s", c.args, got, c.want)
			}
		}
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, libsvm := put("good", ffmText), put("svm", "1 1:1\n")
	many := strings.Repeat("1 0:1:1\n", sniffRows)
	for _, c := range []struct {
		name  string
		paths []string
		opts  Options
		want  string
	}{
		{"empty", []string{put("empty", "")}, Options{}, "empty: the file is empty"},
		{"blank", []string{put("blank", "\n \n\r\n")}, Options{}, "the file is empty"},
		{"empty gz", []string{put("egz", string(compressed(t, "gz", nil)))}, Options{}, "the file is empty"},
		{"second empty", []string{good, put("empty2", "")}, Options{}, "empty2: the file is empty"},
		{"binary", []string{put("bin", "\x7fELF\x02\x01\x01\x00\x00")}, Options{}, "the file is binary, not text"},
		{"xz", []string{put("xz", "\xfd7zXZ\x00")}, Options{}, "the file is xz-compressed; plain text and gz, zst, lz4"},
		{"utf-16", []string{put("u16", "\xff\xfe1\x00")}, Options{}, "UTF-16"},
		{"binary later", []string{put("bin2", many+"\x00\x01\n")}, Options{}, "bin2:20001:1: label \"\\x00\\x01\" is not a number"},
		{"prose", []string{put("prose", "Hello world\n")}, Options{}, "prose:1: the format of \"Hello world\" is not recognised"},
		{"looks csv", []string{put("csv", "a,b,c\n1,2,3\n")}, Options{}, "This line has 3 cells separated by \",\": if it is csv, give --schema"},
		{"labels only", []string{put("labels", "1\n0\n")}, Options{}, "the format cannot be told; give --format"},
		{"wrong format", []string{libsvm}, Options{Format: LibFFM}, "svm:1:3: \"1:1\" is not field:id:value with whole numbers for all but the value; it looks like libsvm: give --format libsvm"},
		{"wrong criteo", []string{libsvm}, Options{Format: Criteo}, "svm:1:1: no tab in the line"},
		{"mixed", []string{good, libsvm}, Options{}, "the file looks like libsvm, but " + good + " is read as libffm"},
		{"unknown format", []string{good}, Options{Format: "libsvn"}, "did you mean \"libsvm\"?"},
		{"unknown task", []string{good}, Options{Task: "rank"}, "task \"rank\" is unknown"},
		{"csv, no schema", []string{good}, Options{Format: CSV}, "format csv needs a schema"},
		{"schema, not csv", []string{good}, Options{Format: LibSVM, Schema: &Schema{}}, "a schema goes with format csv"},
		{"fields", []string{good}, Options{Fields: 1}, "good:1:9: field 1, but the number of fields was given as 1"},
		{"too many later", []string{put("later", many+"1 1:1:1\n")}, Options{}, "later:20001:3: field 1, but the first 20000 rows have only 1 fields; mend the line, or give --fields 2"},
		{"id later", []string{put("id", many+"1 0:18446744073709551616:1\n")}, Options{}, "id:20001:5: id beyond 64 bits"},
		{"both conventions", []string{put("conv", "1 1:1\n-1 1:1\n0 1:1\n")}, Options{}, "conv:3:1: label \"0\", but earlier rows use"},
		{"long line", []string{put("long", ffmText+"1"+strings.Repeat(" 0:1:1", 400))}, Options{MaxLine: 1000}, "long:4: line longer than the limit of 1000B"},
		{"long line later", []string{put("long2", many+"1"+strings.Repeat(" 0:1:1", 1<<20))}, Options{MaxLine: 1 << 20}, "long2:20001: line longer than the limit of 1MiB"},
		{"unreadable", []string{dir + "/good/x"}, Options{}, "cannot be read: not a directory"},
	} {
		_, err := rowsOf(t, c.paths, c.opts)
		var e *Error
		if !errors.As(err, &e) || !e.BadInput() || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	a, b := file(t, "a", []byte(ffmText)), file(t, "b", []byte("0 2:9:1\n"))
	src, err := Open(t.Context(), []string{a + "," + b}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := src.Describe()
	if d.Format != LibFFM || d.Fields != 3 || d.MeanLabel != 0.5 || d.SniffedRows != 4 || d.Bytes != int64(len(ffmText)+8) ||
		!slices.Equal(d.Files, []string{a, b}) || !slices.Equal(d.FieldNames, []string{"0", "1", "2"}) {
		t.Errorf("%+v", d)
	}
	for text, want := range map[string]Format{
		"1 1:1\n": LibSVM, "-1 1:1\n": LibSVM, "1\n2.5 1:1\n": LibFM, "0\n0 1:1:1": LibFFM, criteoLine("0", nil): Criteo,
	} {
		src, err := Open(t.Context(), []string{file(t, "x", []byte(text))}, Options{Task: Regression})
		if err != nil || src.Describe().Format != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// What can be read only once is refused, with what it is, and not waited for.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	regular, err := os.Open(file(t, "f", []byte(ffmText)))
	if err != nil {
		t.Fatal(err)
	}
	defer regular.Close()
	for path, want := range map[string]string{pipe: "is no regular file but a pipe", socket: "is no regular file but a socket", "/dev/null": "is no regular file but a device",
		"-": "standard input cannot be read", fmt.Sprint("/dev/fd/", regular.Fd()): "name the file itself",
		filepath.Join(dir, "*"): "matches no file", dir: "holds no data file"} {
		if _, err := Open(t.Context(), []string{path}, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := NewWatch([]string{pipe}, 0).Look(time.Now(), func(string) bool { return false }); err == nil || !strings.Contains(err.Error(), "a pipe") {
		t.Errorf("watched: %v", err)
	}
}

// Options go to other processes as JSON: none may be lost on the way.
func TestOptionsTravel(t *testing.T) {
	o := Options{Format: CSV, Task: Regression, Fields: 3, Schema: &Schema{Header: "true"}, MaxLine: 5, Pipe: "cat", PipeTimeout: time.Second, IgnoreLabels: true}
	for v, i := reflect.ValueOf(o), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not tried", v.Type().Field(i).Name)
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var got Options
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, o) {
		t.Errorf("%s: %+v, %v", text, got, err)
	}
}

// A row that is cut short is not taken for a row of another format.
func TestRowCutShort(t *testing.T) {
	_, err := Open(t.Context(), []string{file(t, "cut", []byte("1 0:1:1 1:2:1\n0 0:1\n"))}, Options{Format: LibFFM})
	if err == nil || strings.Contains(err.Error(), "libsvm") || !strings.Contains(err.Error(), "cut:2:3") {
		t.Error(err)
	}
}

// A header is no row: what is known of the beginning of a file does not depend on it.
func TestSniffedRowsBesideAHeader(t *testing.T) {
	var rows strings.Builder
	for i := range sniffRows + 10 {
		fmt.Fprintf(&rows, "%d,%d\n", i%3%2, i)
	}
	about := func(text string) Description {
		src, err := Open(t.Context(), []string{file(t, "rows.csv", []byte(text))},
			Options{Schema: schemaOf(t, "columns:\n  - {name: click, kind: label}\n  - {name: price, kind: numeric, transform: standardize}\n")})
		if err != nil {
			t.Fatal(err)
		}
		return src.Describe()
	}
	with, without := about("click,price\n"+rows.String()), about(rows.String())
	if with.SniffedRows != sniffRows || without.SniffedRows != sniffRows || with.MeanLabel != without.MeanLabel || !slices.Equal(with.FieldNames, without.FieldNames) {
		t.Errorf("with a header %+v, without %+v", with, without)
	}
}
