package ckpt

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"psrt/tiers/ckpt/files"
)

func (d *faulty) Open(path string) (r files.DiskReader, err error) {
	err = d.do(path, func() error { r, err = d.Disk.Open(path); return err })
	return r, err
}
func (d *faulty) ReadDir(dir string) (list []fs.DirEntry, err error) {
	err = d.do(dir, func() error { list, err = d.Disk.ReadDir(dir); return err })
	return list, err
}

// TestHistorySurvivesEveryFailure makes each operation of two commits fail in
// turn, one a delta, one a base that retires a chain.
func TestHistorySurvivesEveryFailure(t *testing.T) {
	for _, c := range []struct {
		err   error
		stays bool
	}{{syscall.ENOSPC, true}, {syscall.EIO, false}, {syscall.EROFS, false}} {
		failed := 0
		for k := int64(0); ; k++ {
			if testing.Short() {
				k += 19
			}
			dir, w := t.TempDir(), newTwin(3)
			disk := newMemDisk(dir)
			clean := files.OnDisk(dir, disk)
			h, err := openHistory(background, clean, dir, HistoryOptions{Keep: 1, Run: oneRun})
			check(t, err)
			for i := range 2 {
				w.train(30)
				_, err := w.commit(h, NextOptions{Delta: i > 0}, 2)
				check(t, err)
			}
			check(t, h.Close())
			acked, before := w.copy(), w.copy()

			d := &faulty{Disk: disk, n: k, stays: c.stays, err: c.err}
			var trouble error
			h, err = openHistory(background, files.OnDisk(dir, d), dir, HistoryOptions{Keep: 1, Run: oneRun})
			for i := 0; err == nil && i < 2; i++ {
				w.train(30)
				before = w.copy()
				if _, err = w.commit(h, NextOptions{Delta: i == 0}, 2); err == nil {
					acked = before
				}
				trouble = errors.Join(trouble, h.Trouble())
			}
			if h != nil {
				check(t, h.Close())
			}
			if d.calls.Load() <= k { // nothing was left to fail
				check(t, errors.Join(err, trouble))
				break
			}
			failed++
			for _, e := range []error{err, trouble} {
				if e != nil && (!errors.Is(e, c.err) || !strings.Contains(e.Error(), dir)) {
					t.Errorf("%v at operation %d: %q", c.err, k, e)
				}
			}
			m, e := openIn(background, clean, func(s *shelf) (uint64, error) { return s.last(), nil })
			if e != nil {
				t.Fatalf("%v at operation %d (%v): %v", c.err, k, err, e)
			}
			// A commit whose very last sync failed may be there, and then whole.
			if e := acked.same(m, 2); e != nil && (err == nil || before.same(m, 2) != nil) {
				t.Fatalf("%v at operation %d (%v, %v) lost what was acknowledged: %v", c.err, k, err, trouble, e)
			}
			h, e = openHistory(background, clean, dir, HistoryOptions{Keep: 1, Run: oneRun}) // the next run works
			check(t, e)
			w.train(1)
			_, e = w.commit(h, NextOptions{}, 2)
			check(t, e)
			check(t, h.Trouble())
			check(t, h.Close())
			s, e := look(background, clean)
			check(t, e)
			if len(s.numbers) != 1 || len(s.dirs) != 1 || len(s.temps) != 0 || s.head == nil {
				t.Errorf("%v at operation %d left %v, %v, %v", c.err, k, s.numbers, s.dirs, s.temps)
			}
			r, e := verifyAll(background, clean, 2)
			if check(t, e); len(r.Problems) > 0 {
				t.Errorf("%v at operation %d: %v", c.err, k, r.Problems)
			}
		}
		if failed < 60 && !testing.Short() {
			t.Errorf("only %d operations could fail", failed)
		}
	}
}

// TestReadErrors makes each read of a load fail: an error, never fewer rows.
func TestReadErrors(t *testing.T) {
	dir, w := t.TempDir(), newTwin(4)
	h := testHistory(t, dir, 0)
	for i := range 3 {
		w.train(50)
		_, err := w.commit(h, NextOptions{Delta: i > 0}, 2)
		check(t, err)
	}
	for k := int64(0); ; k++ {
		d := &badReads{faulty{Disk: quick{}, n: k, err: syscall.EIO}}
		m, err := openIn(background, files.OnDisk(dir, d), func(s *shelf) (uint64, error) { return s.last(), nil })
		if err == nil {
			err = w.same(m, 2)
		}
		if d.calls.Load() <= k {
			check(t, err)
			if k < 40 {
				t.Errorf("only %d reads could fail", k)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), dir) {
			t.Fatalf("EIO at read %d: %v", k, err)
		}
	}
}

// badReads fails ReadAt, too.
type badReads struct{ faulty }

func (d *badReads) Open(path string) (files.DiskReader, error) {
	r, err := d.faulty.Open(path)
	return &badReader{r, d, path}, err
}

type badReader struct {
	files.DiskReader
	d    *badReads
	path string
}

func (r *badReader) ReadAt(b []byte, at int64) (n int, err error) {
	err = r.d.do(r.path, func() error { n, err = r.DiskReader.ReadAt(b, at); return err })
	return n, err
}
