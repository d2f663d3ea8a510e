package dataset

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
)

// Changes at an end, of any length, and in the middle of a small file are seen; a copy, and a
// file that was touched, is the same.
func TestIdentity(t *testing.T) {
	r := seedtest.Rand(t)
	for _, size := range []int{0, 1, 1000, sampleWhole - 1, sampleWhole, sampleWhole + 1, 3*sampleWhole + 7} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(r.Uint32())
		}
		path := file(t, "a", content)
		was, err := Identify(path)
		if err != nil || was.Size != int64(size) || was.Path != path || was.MTime == 0 || was.Inode == 0 {
			t.Fatalf("%+v, %v", was, err)
		}
		if err := was.check(); err != nil {
			t.Errorf("%d bytes, as they were: %v", size, err)
		}
		if err := os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := was.check(); err != nil {
			t.Errorf("%d bytes, touched: %v", size, err)
		}
		copied, err := Identify(file(t, "a", content))
		if err != nil || !was.SameContent(&copied) || copied.Inode == was.Inode {
			t.Errorf("%d bytes, copied: %+v, %+v, %v", size, was, copied, err)
		}
		change := func(name, want string, changed []byte) {
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			err := was.check()
			if bad := (*Error)(nil); !errors.As(err, &bad) || bad.Path != path || !strings.Contains(bad.Msg, want) || !strings.Contains(bad.Msg, fmt.Sprintf("it had %d bytes of ", size)) {
				t.Errorf("%d bytes, %s: %v, want %q", size, name, err, want)
			}
		}
		change("one more", fmt.Sprintf("has %d now", size+1), append(content[:size:size], 'x'))
		change("one more", "1 bytes were added to its end", append(content[:size:size], 'x'))
		if size == 0 {
			continue
		}
		change("one less", fmt.Sprintf("has %d now", size-1), content[:size-1])
		for name, at := range map[string]int{"the first": 0, "the last": size - 1, "the middle of the end": size - min(size, sampleEnds)/2 - 1} {
			other := append([]byte(nil), content...)
			other[at] ^= 1
			change(name, "has as many now", other)
		}
		grown := append(append([]byte(nil), content...), "more"...)
		grown[0] ^= 1
		change("another that is longer", fmt.Sprintf("has %d now", size+4), grown)
		if err := was.check(); strings.Contains(err.Error(), "added to its end") {
			t.Errorf("%d bytes, another that is longer: %v", size, err)
		}
	}
}

// A later epoch does not read a file that has changed, and an epoch in which it changes ends
// with an error; one that was only touched is read.
func TestFileChangesWhileItIsRead(t *testing.T) {
	const rows = 100
	text := strings.Repeat("1 0:1:1\n", rows)
	path := file(t, "a", []byte(text))
	src, err := Open(t.Context(), []string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.NewReader(t.Context(), Whole(10, 10), ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	epoch := func(n int) (rows int, err error) {
		if err := r.Epoch(n); err != nil {
			t.Fatal(err)
		}
		for {
			step, err := r.Next()
			if err == io.EOF {
				return rows, nil
			}
			if err != nil {
				return rows, err
			}
			rows += step.Rows
			step.Release()
		}
	}
	if n, err := epoch(0); n != rows || err != nil {
		t.Fatal(n, err)
	}
	if err := os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n, err := epoch(1); n != rows || err != nil {
		t.Fatalf("touched: %d rows, %v", n, err)
	}
	if err := os.WriteFile(path, []byte(text+text), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := epoch(2)
	if bad := (*Error)(nil); !errors.As(err, &bad) || !bad.BadInput() || bad.Path != path || n != 0 {
		t.Errorf("with more rows: %d rows, %v", n, err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := epoch(3); n != rows || err != nil {
		t.Errorf("as it was again: %d rows, %v", n, err)
	}
	// It grows behind the first steps of an epoch, which the reader has not read to the end.
	if err := r.Epoch(4); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+text), 0o600); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = r.Next()
	}
	if bad := (*Error)(nil); !errors.As(err, &bad) || !strings.Contains(bad.Msg, "added to its end") {
		t.Errorf("grown within an epoch: %v", err)
	}
}

func TestCompareFiles(t *testing.T) {
	id := func(path string, size int64, sample string) Identity {
		return Identity{Path: path, Size: size, Sample: sample, MTime: time.Now().UnixNano()}
	}
	a, b, c := id("a", 1, "x"), id("b", 2, "y"), id("c", 3, "z")
	copied := a
	copied.MTime, copied.Inode = 5, 7
	for _, x := range []struct {
		was, now []Identity
		want     string
	}{
		{[]Identity{a, b}, []Identity{a, b}, ""},
		{[]Identity{a, b}, []Identity{copied, b}, ""},
		{[]Identity{a, b}, []Identity{a}, "b is not among the files any more: it had 2 bytes of "},
		{[]Identity{a}, []Identity{a, b, c}, "b has come to the files: it has 2 bytes of "},
		{[]Identity{a, b}, []Identity{b, a}, "file 1 was a, and is b now"},
		{[]Identity{a, a}, []Identity{a}, "they were 2 files, and are 1 now"},
		{[]Identity{a, b}, []Identity{a, id("b", 2, "w")}, "b has changed: it had 2 bytes of "},
		{[]Identity{a, b}, []Identity{a, id("b", 5, "y")}, "and has 5 now"},
	} {
		for _, got := range []string{compareFiles(x.was, x.now), NewFileSet(x.was).Compare(x.now)} {
			if (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
				t.Errorf("%+v, %+v: %q, want %q", x.was, x.now, got, x.want)
			}
		}
	}
	if what := (*FileSet)(nil).Compare([]Identity{a}); what != "" {
		t.Error(what)
	}
	var many []Identity
	for i := range 10000 {
		many = append(many, id(fmt.Sprintf("/a/path/of/some/length/part-%05d", i), 1, "0123456789abcdef0123456789abcdef"))
	}
	set := NewFileSet(many)
	if set.Files != nil || set.Compare(many) != "" {
		t.Errorf("many files: %d listed, %q", len(set.Files), set.Compare(many))
	}
	many[5000].Size++
	if what := set.Compare(many); !strings.Contains(what, "10000 files") {
		t.Errorf("one of many: %q", what)
	}
}

// A stream's file that was exchanged for one of the same size is not read for the other.
func TestStreamFileOfOtherContent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	put := func(text string) Identity {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := Identify(path)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := put("1 0:1:1\n")
	read := func(e Entry) error {
		src, err := NewStream(given{e, {End: true}}, 0, Options{Format: LibFFM, Fields: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = rowsIn(t, src, Whole(2, 2), ReaderOptions{})
		return err
	}
	e := Entry{File: path, Size: id.Size, Sample: id.Sample}
	if err := read(e); err != nil {
		t.Errorf("as it was: %v", err)
	}
	if err := os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := read(e); err != nil {
		t.Errorf("touched: %v", err)
	}
	put("0 0:1:1\n")
	if err := read(e); err == nil || !strings.Contains(err.Error(), "other content than when the job took it up") {
		t.Errorf("another of the same size: %v", err)
	}
	if err := read(Entry{File: path, Size: id.Size}); err != nil {
		t.Errorf("of a log without samples: %v", err)
	}
}
