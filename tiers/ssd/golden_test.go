package ssd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; only for a new version of the format")

const goldenStore = "testdata/store1.tar.gz"

// goldenRows is what the golden store holds: 200 rows in two logs, some written
// twice, some deleted.
func goldenRows(r *rig) {
	r.fill(100)
	for k := range uint64(20) {
		if err := r.put(0, k*3); err != nil {
			r.t.Fatal(err)
		}
		if err := r.del(1, k*4); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.commit(); err != nil {
		r.t.Fatal(err)
	}
	r.settle()
}

// TestGoldenStore opens a store that version 1 of the format has written, in two
// directories, and finds its rows. It must do so for ever.
func TestGoldenStore(t *testing.T) {
	// What the rows must be comes from doing the same in memory.
	_, devs := memory(t, 1, 2, 512)
	want := newRig(t, 256, 40)
	want.mustOpen(small, devs...)
	goldenRows(want)
	points := want.snapshot()
	want.close()

	dir := t.TempDir()
	dirs := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	if *rewrite {
		for _, d := range dirs {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		plain, err := openDirs(dirs)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, 256, 40)
		r.mustOpen(small, plain...)
		goldenRows(r)
		r.close()
		if err := pack(goldenStore, dir); err != nil {
			t.Fatal(err)
		}
	} else if err := unpack(goldenStore, dir); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time as this version has left it
		plain, err := openDirs(dirs)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, 256, 40)
		rec := r.mustOpen(small, plain...)
		if rec.Commit != 2 || len(rec.Note) != 8 || le.Uint64(rec.Note) != 220 || len(rec.Warnings) > 0 || len(rec.Logs) != 2 || rec.Logs[1] != (LogInfo{"table 1", 40}) {
			t.Fatalf("%+v", rec)
		}
		if err := r.verify(points); err != nil {
			t.Fatal(err)
		}
		r.close()
	}
}

func pack(path, dir string) error {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := filepath.Walk(dir, func(p string, st os.FileInfo, err error) error {
		if err != nil || st.IsDir() || strings.HasPrefix(st.Name(), ".") {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b))}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close(), os.MkdirAll(filepath.Dir(path), 0o755)); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func unpack(path, dir string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		p := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, b, 0o644)); err != nil {
			return err
		}
	}
}
