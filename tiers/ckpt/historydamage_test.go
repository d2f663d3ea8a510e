package ckpt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// chainOf is a history of a base and three deltas, on disk, and its model.
func chainOf(t *testing.T) (dir string, w *twin) {
	t.Helper()
	dir, w = t.TempDir(), newTwin(11)
	h := testHistory(t, dir, 0)
	for i := range 4 {
		w.train(6)
		_, err := w.commit(h, NextOptions{Delta: i > 0}, 1)
		check(t, err)
	}
	check(t, h.Close())
	return dir, w
}

// reads opens and reads the newest generation, as a loader does.
func reads(dir string, w *twin) error {
	m, err := Open(dir)
	if err != nil {
		return err
	}
	return w.same(m, 1)
}

// TestEveryByteOfAChainCounts flips a bit of each byte of each file of a chain: a
// plain load must refuse it and name the file, and so must verification.
func TestEveryByteOfAChainCounts(t *testing.T) {
	dir, w := chainOf(t)
	check(t, reads(dir, w))
	found, err := filepath.Glob(filepath.Join(dir, partsPrefix+"*", "*"))
	check(t, err)
	parts := len(found)
	for n := range uint64(4) {
		found = append(found, filepath.Join(dir, manifestFile(n+1)))
	}
	found = append(found, filepath.Join(dir, headName))
	if parts != 12 {
		t.Fatalf("%d parts", parts)
	}
	for k, path := range found {
		good, err := os.ReadFile(path)
		check(t, err)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		check(t, err)
		stride := 1
		if testing.Short() {
			stride = 7
		}
		read := func() error { return reads(dir, w) }
		if k >= parts { // to open the chain is to read all manifests, the position in them, and HEAD
			read = func() error { _, err := Open(dir); return err }
		}
		// Dense vectors of old generations are not read by a load.
		old := strings.Contains(path, "dense") && !strings.Contains(path, "0000000004")
		for i := 0; i < len(good); i += stride {
			_, err := f.WriteAt([]byte{good[i] ^ 1<<(i%8)}, int64(i))
			check(t, err)
			err = read()
			if old && err == nil {
				err = corrupt(path, "left to verification")
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Fatalf("byte %d of %s: %v", i, path, err)
			}
			if i%29 == 0 && (k < parts || i%493 == 0) {
				named(t, dir, path)
			}
			_, err = f.WriteAt(good[i:i+1], int64(i))
			check(t, err)
		}
		check(t, f.Close())
		for _, cut := range [][]byte{nil, good[:len(good)/2], good[:len(good)-1], append(bytes.Clone(good), 0)} {
			check(t, os.WriteFile(path, cut, 0o666))
			if err := reads(dir, w); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Fatalf("%d of %d bytes of %s: %v", len(cut), len(good), path, err)
			}
			named(t, dir, path)
		}
		check(t, os.WriteFile(path, good, 0o666))
	}
	check(t, reads(dir, w))
	wellVerified(t, dir)
}

// named demands that verification finds damage and names a file.
func named(t *testing.T, dir, path string) {
	t.Helper()
	r, err := VerifyAll(background, dir, 1)
	check(t, err)
	for _, p := range r.Problems {
		if errors.Is(p.Err, ErrCorrupt) && strings.Contains(p.Err.Error(), path) {
			return
		}
	}
	t.Fatalf("verification does not name %s: %v", path, r.Problems)
}

// TestDeltasOutOfPlace removes, exchanges and repeats deltas, and parts of them.
func TestDeltasOutOfPlace(t *testing.T) {
	swap := func(t *testing.T, a, b string) {
		check(t, os.Rename(a, a+".x"))
		check(t, os.Rename(b, a))
		check(t, os.Rename(a+".x", b))
	}
	partsOf := func(t *testing.T, dir string, n uint64) string {
		found, err := filepath.Glob(filepath.Join(dir, strings.TrimSuffix(generationDir(n, 0), "0000000000000000")+"*"))
		check(t, err)
		if len(found) != 1 {
			t.Fatalf("generation %d has its parts in %v", n, found)
		}
		return found[0]
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string, manifest func(uint64) string)
		names string // a file that must be named
		says  string
	}{
		{"a delta's manifest is removed", func(t *testing.T, _ string, m func(uint64) string) { check(t, os.Remove(m(3))) }, manifestFile(3), "is missing"},
		{"the base's manifest is removed", func(t *testing.T, _ string, m func(uint64) string) { check(t, os.Remove(m(1))) }, manifestFile(1), "is missing"},
		{"the newest manifest is removed", func(t *testing.T, _ string, m func(uint64) string) { check(t, os.Remove(m(4))) }, manifestFile(4), "the newest that was committed"},
		{"all manifests are removed", func(t *testing.T, _ string, m func(uint64) string) {
			for n := range uint64(4) {
				check(t, os.Remove(m(n+1)))
			}
		}, manifestFile(4), "is missing"},
		{"a delta's parts are removed", func(t *testing.T, dir string, _ func(uint64) string) { check(t, os.RemoveAll(partsOf(t, dir, 3))) }, "parts-0000000003", "is missing"},
		{"two manifests are exchanged", func(t *testing.T, _ string, m func(uint64) string) { swap(t, m(2), m(3)) }, manifestFile(3), "repeated or exchanged"},
		{"two deltas' parts are exchanged", func(t *testing.T, dir string, _ func(uint64) string) {
			swap(t, partsOf(t, dir, 2), partsOf(t, dir, 3))
		}, "parts-000000000", "damaged"},
		{"one part of each is exchanged", func(t *testing.T, dir string, _ func(uint64) string) {
			// The dense parts have one size: only the header can tell.
			swap(t, filepath.Join(partsOf(t, dir, 3), "dense-lane0.part"), filepath.Join(partsOf(t, dir, 4), "dense-lane0.part"))
		}, "parts-000000000", "it belongs to generation"},
		{"a delta is repeated", func(t *testing.T, _ string, m func(uint64) string) {
			b, err := os.ReadFile(m(3))
			check(t, err)
			check(t, os.WriteFile(m(5), b, 0o666))
		}, manifestFile(5), "repeated or exchanged"},
		{"an old delta takes a newer one's place", func(t *testing.T, _ string, m func(uint64) string) {
			b, err := os.ReadFile(m(2))
			check(t, err)
			check(t, os.WriteFile(m(4), b, 0o666))
		}, manifestFile(4), "repeated or exchanged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, w := chainOf(t)
			c.spoil(t, dir, func(n uint64) string { return filepath.Join(dir, manifestFile(n)) })
			err := reads(dir, w)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.names) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("a load says %v, want %s and %q", err, c.names, c.says)
			}
			named(t, dir, c.names)
			// A writer that comes removes nothing of what is left, and does not go
			// on from it.
			before, err := filepath.Glob(filepath.Join(dir, "*", "*"))
			check(t, err)
			h := testHistory(t, dir, 1)
			if _, err := h.Begin(t.Context(), NextOptions{Delta: true}); err == nil {
				t.Error("a delta follows what is damaged")
			}
			check(t, h.Close())
			if after, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(after) != len(before) {
				t.Errorf("of %d files %d are left: %v", len(before), len(after), err)
			}
		})
	}
}

// TestForeignDelta puts a delta of another history, which has the same numbers,
// into one.
func TestForeignDelta(t *testing.T) {
	dir, w := chainOf(t)
	other, _ := chainOf(t)
	b, err := os.ReadFile(filepath.Join(other, manifestFile(3)))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, manifestFile(3)), b, 0o666))
	check(t, os.CopyFS(dir+"/x", os.DirFS(other)))
	dirs, err := filepath.Glob(filepath.Join(dir, "x", "parts-0000000003-*"))
	check(t, err)
	check(t, os.Rename(dirs[0], filepath.Join(dir, filepath.Base(dirs[0]))))
	if err := reads(dir, w); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), manifestFile(3)) || !strings.Contains(err.Error(), "exchanged") {
		t.Errorf("another history's delta: %v", err)
	}
	named(t, dir, manifestFile(3))
}

// TestStatedDigest: files that are whole, of a model that is not the stated one.
func TestStatedDigest(t *testing.T) {
	dir, w := chainOf(t)
	h := testHistory(t, dir, 0)
	w.train(5)
	for k := range w.dirty[1] {
		delete(w.dirty[1], k) // a trainer that forgets what has changed
		break
	}
	m, err := w.commit(h, NextOptions{Delta: true}, 2)
	check(t, err)
	r, err := VerifyAll(background, dir, 2)
	check(t, err)
	if len(r.Problems) != 1 || r.Problems[0].Number != m.Number {
		t.Errorf("a delta that lacks a row: %v", r.Problems)
	}
}
