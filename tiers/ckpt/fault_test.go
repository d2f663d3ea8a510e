package ckpt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"psrt/tiers/ckpt/files"
)

// quick is a disk without waiting for it: tests that save hundreds of models
// do not pull the plug.
type quick struct{ files.OS }

type quickFile struct{ files.DiskFile }

func (quickFile) Sync() error          { return nil }
func (quick) SyncDir(dir string) error { return nil }
func (q quick) Create(path string) (files.DiskFile, error) {
	f, err := q.OS.Create(path)
	return quickFile{f}, err
}

// faulty fails its n-th operation (from 0) and, if it stays, all later ones
// but removals.
type faulty struct {
	files.Disk
	n     int64
	stays bool
	err   error
	calls atomic.Int64
}

// do runs f unless it is time to fail. A short write comes before a failed one.
func (d *faulty) do(path string, f func() error) error {
	if k := d.calls.Add(1) - 1; k == d.n || (d.stays && k > d.n) {
		return &fs.PathError{Op: "test", Path: path, Err: d.err}
	}
	return f()
}

func (d *faulty) MkdirAll(dir string) error {
	return d.do(dir, func() error { return d.Disk.MkdirAll(dir) })
}
func (d *faulty) Rename(from, to string, replace bool) error {
	return d.do(from, func() error { return d.Disk.Rename(from, to, replace) })
}
func (d *faulty) SyncDir(dir string) error {
	return d.do(dir, func() error { return d.Disk.SyncDir(dir) })
}
func (d *faulty) Create(path string) (f files.DiskFile, err error) {
	err = d.do(path, func() error { f, err = d.Disk.Create(path); return err })
	return &faultyFile{f, d, path}, err
}

type faultyFile struct {
	files.DiskFile
	d    *faulty
	path string
}

func (f *faultyFile) Write(b []byte) (n int, err error) {
	err = f.d.do(f.path, func() error { n, err = f.DiskFile.Write(b); return err })
	if err != nil {
		n, _ = f.DiskFile.Write(b[:len(b)/2])
	}
	return n, err
}
func (f *faultyFile) Sync() error { return f.d.do(f.path, f.DiskFile.Sync) }
func (f *faultyFile) Close() error {
	e := f.DiskFile.Close()
	return errors.Join(f.d.do(f.path, func() error { return nil }), e)
}

// TestEveryFailureKeepsTheOldModel makes each operation of a save fail in turn.
func TestEveryFailureKeepsTheOldModel(t *testing.T) {
	for _, c := range []struct {
		err    error
		stays  bool
		remedy string
	}{
		{syscall.ENOSPC, true, "free space"}, {syscall.EIO, false, ""}, {syscall.EROFS, false, "may write to"},
	} {
		failed := 0
		for n := int64(0); ; n++ {
			if testing.Short() {
				n += 2
			}
			dir := t.TempDir()
			old, newer := makeModel(1, 40), makeModel(2, 40)
			check(t, old.save(quick{}, dir, false))
			d := &faulty{Disk: quick{}, n: n, stays: c.stays, err: c.err}
			err := newer.save(d, dir, false)
			if d.calls.Load() <= n { // nothing was left to fail
				check(t, err)
				check(t, newer.same(dir))
				break
			}
			failed++
			if err == nil {
				t.Fatalf("%v at operation %d went unnoticed", c.err, n)
			}
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.remedy) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n\n") {
				t.Errorf("%v at operation %d: %q", c.err, n, err)
			}
			if e := old.same(dir); e != nil {
				// The very last step syncs the directory after the switch: the
				// new model is there, and whole.
				if newer.same(dir) != nil {
					t.Fatalf("%v at operation %d (%v) left no whole model: %v", c.err, n, err, e)
				}
				if !strings.Contains(err.Error(), "syncing "+dir+":") {
					t.Errorf("%v at operation %d switched models and failed: %v", c.err, n, err)
				}
			}
			check(t, makeModel(3, 5).save(quick{}, dir, false)) // the next run works
			if got := listing(t, dir); !slices.Equal(got, []string{".lock", "MANIFEST.json", "parts"}) {
				t.Errorf("%v at operation %d left %v", c.err, n, got)
			}
		}
		if failed < 25 && !testing.Short() {
			t.Errorf("only %d operations could fail", failed)
		}
	}
}

func TestDirectoryThatIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(path, []byte("data"), 0o666))
	for _, dir := range []string{path, filepath.Join(path, "below")} {
		if _, err := Begin(dir); err == nil || !strings.Contains(err.Error(), "choose a directory") {
			t.Errorf("Begin in a file: %v", err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, ErrNoModel) || !strings.Contains(err.Error(), "--out") {
		t.Errorf("Open of nothing: %v", err)
	}
}

// TestReadOnlyMount writes to a place that even root may not write to.
func TestReadOnlyMount(t *testing.T) {
	if _, err := Begin("/proc/psrt-model"); err == nil || strings.Contains(err.Error(), "panic") {
		t.Errorf("Begin in /proc: %v", err)
	}
}

// TestFullDevice fills a device to the brim: /dev/full takes nothing.
func TestFullDevice(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	check(t, err)
	defer f.Close()
	pw := &partWriter{path: "/dev/full", f: fullFile{f}, sum: nopHash{}}
	pw.write([]byte("x"))
	if !errors.Is(pw.err, syscall.ENOSPC) || !strings.Contains(pw.err.Error(), "free space on the device") {
		t.Errorf("a full device: %v", pw.err)
	}
}

type fullFile struct{ *os.File }

func (fullFile) Abort() {}

type nopHash struct{}

func (nopHash) Write(b []byte) (int, error) { return len(b), nil }
func (nopHash) Sum(b []byte) []byte         { return b }
func (nopHash) Reset()                      {}
func (nopHash) Size() int                   { return 0 }
func (nopHash) BlockSize() int              { return 1 }
