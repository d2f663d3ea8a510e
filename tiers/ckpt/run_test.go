package ckpt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// numbersAt lists the generations at a location.
func numbersAt(t *testing.T, location string) (numbers []uint64) {
	t.Helper()
	entries, err := List(t.Context(), location)
	check(t, err)
	for _, e := range entries {
		check(t, e.Err)
		numbers = append(numbers, e.Number)
	}
	return numbers
}

// TestRunsAreKeptApart: a run that begins anew counts and removes only its own chains; a resumed one
// continues the run of the generation that it goes on from.
func TestRunsAreKeptApart(t *testing.T) {
	for name, location := range map[string]string{"directory": t.TempDir(), "store": newStore(t).url} {
		t.Run(name, func(t *testing.T) {
			open := func(o HistoryOptions) *History {
				h, err := OpenHistory(t.Context(), location, o)
				check(t, err)
				return h
			}
			base := func(h *History, w *twin, delta bool) *Manifest {
				w.train(3)
				m, err := w.commit(h, NextOptions{Delta: delta}, 1)
				check(t, err)
				check(t, h.Trouble())
				return m
			}
			first := newTwin(1)
			h := open(HistoryOptions{Keep: 2})
			old := base(h, first, false).Run
			base(h, first, true)
			check(t, h.Close())

			second := newTwin(2)
			h = open(HistoryOptions{Keep: 1}) // without Resume: another run
			for range 3 {
				if m := base(h, second, false); m.Run == old || m.Run == "" {
					t.Fatalf("generation %d is of run %q, the first run is %q", m.Number, m.Run, old)
				}
			}
			check(t, h.Close())
			if got := numbersAt(t, location); !slices.Equal(got, []uint64{1, 2, 5}) {
				t.Fatalf("generations %v are left, want 1 and 2 of the first run and 5", got)
			}

			h = open(HistoryOptions{Keep: 1})
			check(t, h.Resume(t.Context(), 2))
			if m := base(h, first, true); m.Run != old || m.Parent.Number != 2 {
				t.Fatalf("a delta after Resume is of run %q and follows %v", m.Run, m.Parent)
			}
			base(h, first, false) // and its base retires the run's chain
			if got := numbersAt(t, location); !slices.Equal(got, []uint64{5, 7}) {
				t.Fatalf("generations %v are left, want 5 and 7", got)
			}
			check(t, h.Close())

			h = open(HistoryOptions{Keep: 1, AllRuns: true})
			m, err := h.Merge(t.Context(), 5, 1)
			check(t, errors.Join(err, h.Trouble(), h.Close()))
			if got := numbersAt(t, location); m.Run == old || !slices.Equal(got, []uint64{8}) {
				t.Fatalf("merged as run %q, generations %v are left, want 8 alone", m.Run, got)
			}
		})
	}
}

// TestDeltaNeedsItsBase: a delta is refused with ErrNoBase where a file of its chain is gone or has another
// size, and the base that takes its place is whole.
func TestDeltaNeedsItsBase(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"a part gone":      func(dir string) error { return os.Remove(partsOf(dir, 1)[0]) },
		"a part cut":       func(dir string) error { return os.Truncate(partsOf(dir, 2)[0], 10) },
		"a directory gone": func(dir string) error { return os.RemoveAll(filepath.Dir(partsOf(dir, 1)[0])) },
		"a manifest gone":  func(dir string) error { return os.Remove(filepath.Join(dir, manifestFile(1))) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, w := t.TempDir(), newTwin(3)
			h := testHistory(t, dir, 0)
			for i := range 3 {
				w.train(4)
				_, err := w.commit(h, NextOptions{Delta: i > 0}, 1)
				check(t, err)
			}
			check(t, harm(dir))
			w.train(4)
			if _, err := w.commit(h, NextOptions{Delta: true}, 1); !errors.Is(err, ErrNoBase) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("a delta over what is left: %v", err)
			}
			m, err := w.commit(h, NextOptions{}, 1)
			check(t, err)
			check(t, reads(dir, w))
			w.train(4)
			_, err = w.commit(h, NextOptions{Delta: true}, 1)
			check(t, errors.Join(err, reads(dir, w), h.Close()))
			if m.Kind != KindBase {
				t.Errorf("generation %d is a %s", m.Number, m.Kind)
			}
		})
	}
}

func partsOf(dir string, number uint64) []string {
	found, err := filepath.Glob(filepath.Join(dir, generationDir(number, 0)[:len("parts-0000000000-")]+"*", "*"+partSuffix))
	if err != nil || len(found) == 0 {
		panic(dir)
	}
	return found
}

// TestChainIsListedInTurn: of a long chain the base and the parent are listed each time, the others in turn.
func TestChainIsListedInTurn(t *testing.T) {
	h := &History{}
	for n := range uint64(40) {
		h.chain = append(h.chain, link{number: n})
	}
	seen := map[uint64]bool{}
	for range 3 {
		picked := h.toList()
		if len(picked) != listedAtOnce || picked[0].number != 0 || picked[1].number != 39 {
			t.Fatalf("%d are listed, %d and %d first", len(picked), picked[0].number, picked[1].number)
		}
		for _, g := range picked {
			seen[g.number] = true
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d of 40 were listed in 3 times", len(seen))
	}
}

// TestUsed: a place is used from its first generation on, and stays so where HEAD alone is left.
func TestUsed(t *testing.T) {
	used := func(location string) uint64 {
		t.Helper()
		n, err := Used(t.Context(), location)
		check(t, err)
		return n
	}
	if n := used(filepath.Join(t.TempDir(), "none")); n != 0 {
		t.Errorf("nothing there: %d", n)
	}
	dir, _ := chainOf(t)
	if n := used(dir); n != 4 {
		t.Errorf("the newest of 4 is %d", n)
	}
	for n := range uint64(4) {
		check(t, os.Remove(filepath.Join(dir, manifestFile(n+1))))
	}
	if n := used(dir); n != 4 {
		t.Errorf("HEAD alone: %d", n)
	}
	check(t, os.WriteFile(filepath.Join(dir, headName), []byte("x"), 0o666))
	if _, err := Used(t.Context(), dir); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged HEAD: %v", err)
	}
}

// TestOlderGenerationWithoutTheNewest: a generation that is named opens, whatever became of the newest one.
func TestOlderGenerationWithoutTheNewest(t *testing.T) {
	dir, _ := chainOf(t)
	check(t, os.Remove(filepath.Join(dir, manifestFile(4))))
	if _, err := Open(dir); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the newest, which is gone: %v", err)
	}
	m, err := OpenAt(t.Context(), dir, 3)
	check(t, err)
	if m.Number != 3 {
		t.Errorf("generation %d", m.Number)
	}
}

// TestAdvise: where a generation's parts are damaged, the error names the one before it that is whole; where HEAD is,
// it says what to do with HEAD.
func TestAdvise(t *testing.T) {
	dir, _ := chainOf(t)
	m, err := Open(dir)
	check(t, err)
	failed := corrupt("x", "y")
	if err := m.Advise(t.Context(), failed); err != failed {
		t.Errorf("all is whole: %v", err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("parts-%010d-*", m.Number), "*"))
	if check(t, err); len(parts) == 0 {
		parts, err = filepath.Glob(filepath.Join(dir, "parts", fmt.Sprintf("*%d*", m.Number)))
		check(t, err)
	}
	b, err := os.ReadFile(parts[0])
	check(t, err)
	b[len(b)-1] ^= 1
	check(t, os.WriteFile(parts[0], b, 0o666))
	if n, damaged := m.LastIntact(t.Context()); n != 3 || !damaged {
		t.Errorf("generation 4 is damaged: %v, and %d before it is whole", damaged, n)
	}
	if err := m.Advise(t.Context(), failed); !errors.Is(err, ErrCorrupt) || err == failed {
		t.Errorf("generation 4 is damaged: %v", err)
	}
	check(t, os.WriteFile(filepath.Join(dir, headName), []byte("x"), 0o666))
	if _, err := Open(dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "remove this file") || strings.Contains(err.Error(), "@") {
		t.Errorf("HEAD is damaged: %v", err)
	}
}
