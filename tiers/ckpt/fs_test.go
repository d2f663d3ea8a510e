package ckpt

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"psrt/tiers/ckpt/files"
	"psrt/tiers/ckpt/s3"
)

// TestFS holds every place for files to the one contract.
func TestFS(t *testing.T) {
	store, err := s3.Open(background, newStore(t).url)
	check(t, err)
	dir, mem := t.TempDir(), t.TempDir()
	for name, f := range map[string]files.FS{"directory": files.NewDir(dir + "/new"), "memory": files.OnDisk(mem, newMemDisk(mem)), "store": store} {
		t.Run(name, func(t *testing.T) { testFS(t, f) })
	}
}

func testFS(t *testing.T, f files.FS) {
	ctx := background
	names := func(dir string) (list []string) {
		entries, err := f.List(ctx, dir)
		check(t, err)
		for _, e := range entries {
			if n := e.Name; n != files.LockName {
				if e.Dir {
					n += "/"
				}
				list = append(list, n)
			}
		}
		slices.Sort(list)
		return list
	}
	if got := names("d"); got != nil {
		t.Errorf("nothing holds %v", got)
	}
	lock, err := f.Lock(ctx)
	check(t, err)
	var held *files.LockedError
	if _, err := f.Lock(ctx); !errors.As(err, &held) {
		t.Errorf("a second lock: %v", err)
	}

	w, err := f.Create(ctx, "d/x")
	check(t, err)
	for _, s := range []string{"hello ", "", "world"} {
		_, err := io.WriteString(w, s)
		check(t, err)
	}
	check(t, w.Close())
	w.Abort() // does nothing any more
	check(t, f.Sync(ctx, "d"))
	r, err := f.Open(ctx, "d/x")
	check(t, err)
	b := make([]byte, 8)
	if n, err := r.ReadAt(b, 6); n != 5 || err != io.EOF || string(b[:n]) != "world" {
		t.Errorf("read %q, %v", b[:n], err)
	}
	if n, err := r.ReadAt(b[:4], 2); n != 4 || err != nil || string(b[:n]) != "llo " {
		t.Errorf("read %q, %v", b[:n], err)
	}
	if n, err := r.ReadAt(b, 11); n != 0 || err != io.EOF {
		t.Errorf("read %d bytes behind the end, %v", n, err)
	}
	if r.Size() != 11 || r.Chunk() < 1<<16 {
		t.Errorf("%d bytes, chunks of %d", r.Size(), r.Chunk())
	}
	r.Forget()
	check(t, r.Close())

	check(t, f.Put(ctx, "a", []byte("1"), true))
	if err := f.Put(ctx, "a", []byte("2"), true); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second a: %v", err)
	}
	check(t, f.Put(ctx, "b", []byte("-"), false))
	check(t, f.Put(ctx, "b", []byte("three"), false))
	for name, want := range map[string]string{"a": "1", "b": "three", "d/x": "hello world"} {
		if got, err := f.Read(ctx, name, 100); err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if _, err := f.Read(ctx, "b", 4); err == nil || !strings.Contains(err.Error(), "5 bytes, at most 4") {
		t.Errorf("too much of b: %v", err)
	}
	if _, err := f.Read(ctx, "none", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := f.Open(ctx, "d/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if got := names(""); !slices.Equal(got, []string{"a", "b", "d/"}) {
		t.Errorf("the root holds %v", got)
	}
	if got := names("d"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("d holds %v", got)
	}
	check(t, f.Remove(ctx, "b"))
	check(t, f.Remove(ctx, "d"))
	check(t, f.Remove(ctx, "none"))
	if got := names(""); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the root holds %v", got)
	}
	check(t, lock.Close())
	if !strings.HasSuffix(f.Path("d/x"), "/d/x") {
		t.Errorf("d/x is called %s", f.Path("d/x"))
	}
}
