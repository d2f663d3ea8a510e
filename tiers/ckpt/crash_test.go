package ckpt

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"psrt/tiers/ckpt/files"
)

// script is some generations of a history, the same for the same seed: bases
// and deltas by one or two lanes, a merge, chains retired, the history closed
// and opened. acked is told of each commit that returned.
func script(w *twin, f files.FS, acked func(number uint64)) error {
	const generations = 8
	var h *History
	defer func() {
		if h != nil {
			h.Close() // after an error only its lock matters
		}
	}()
	for i := range generations {
		if h == nil || w.rng.IntN(4) == 0 {
			if h != nil {
				if err := h.Close(); err != nil {
					return err
				}
			}
			var err error
			if h, err = openHistory(background, f, f.Path(""), HistoryOptions{Keep: 2, Run: oneRun}); err != nil {
				return err
			}
		}
		if i == 5 {
			m, err := h.Merge(background, 0, 1)
			if err != nil {
				return err
			}
			acked(m.Number)
			continue
		}
		w.train(20)
		m, err := w.commit(h, NextOptions{Delta: i > 0 && i != 3}, 1+w.rng.IntN(2))
		if err != nil {
			return err
		}
		acked(m.Number)
	}
	return h.Close()
}

// states runs a script to its end, and gives the model of each generation.
func states(t *testing.T, seed uint64) (list []*twin) {
	t.Helper()
	dir, w := t.TempDir(), newTwin(seed)
	list = append(list, w.copy()) // generation 0: nothing
	check(t, script(w, files.OnDisk(dir, newMemDisk(dir)), func(number uint64) {
		if number != uint64(len(list)) {
			t.Fatalf("generation %d came after %d others", number, len(list)-1)
		}
		list = append(list, w.copy())
	}))
	return list
}

// recovered checks a history after a crash: it is some generation of the
// script, whole, and none older than the last acknowledged; and it can be gone
// on with.
func recovered(f files.FS, want []*twin, acked uint64) error {
	h, err := openHistory(background, f, f.Path(""), HistoryOptions{Keep: 2, Run: oneRun})
	if err != nil {
		return err
	}
	defer h.Close()
	open := func() (*Model, error) {
		return openIn(background, f, func(s *shelf) (uint64, error) { return s.last(), nil })
	}
	head := h.Head()
	if head == nil {
		if acked > 0 || h.broken != nil {
			return fmt.Errorf("nothing is left, acknowledged was generation %d: %v", acked, h.broken)
		}
	} else {
		m, err := open()
		if err != nil {
			return err
		}
		if m.Number < acked || m.Number != head.Number {
			return fmt.Errorf("generation %d is left, acknowledged was %d, the next follows %d", m.Number, acked, head.Number)
		}
		if err := want[m.Number].same(m, 2); err != nil {
			return fmt.Errorf("generation %d: %w", m.Number, err)
		}
		r, err := verifyAll(background, f, 2)
		if err != nil || len(r.Problems) > 0 {
			return fmt.Errorf("verify: %v, %v", r, err)
		}
	}
	// One more generation: a delta where there is something to follow.
	w := newTwin(1)
	if head != nil {
		w.rows = want[head.Number].copy().rows
	}
	w.train(10)
	if _, err := w.commit(h, NextOptions{Delta: head != nil}, 2); err != nil {
		return err
	}
	if err := h.Trouble(); err != nil {
		return err
	}
	m, err := open()
	if err != nil {
		return err
	}
	return w.same(m, 2)
}

// TestPowerCuts cuts the power at every operation of a script, with several
// outcomes for what was not synced.
func TestPowerCuts(t *testing.T) {
	first := seed(t)
	outcomes := 1
	if os.Getenv(killsEnv) != "" {
		outcomes = 4
	}
	want := states(t, first)
	cuts := 0
	for ; ; cuts++ {
		if testing.Short() {
			cuts += 3 // all of them take a while under the race detector
		}
		dir := t.TempDir()
		disk := newMemDisk(dir)
		disk.left = cuts
		acked := uint64(0)
		err := script(newTwin(first), files.OnDisk(dir, disk), func(number uint64) { acked = number })
		if disk.left != 0 {
			check(t, err)
			break
		}
		for o := range outcomes {
			rng := rand.New(rand.NewPCG(first, uint64(cuts*10+o)))
			if err := recovered(files.OnDisk(dir, disk.crash(rng)), want, acked); err != nil {
				t.Fatalf("power cut before operation %d, outcome %d: %v", cuts, o, err)
			}
		}
	}
	t.Logf("%d power cuts", cuts*outcomes)
	if cuts < 150 {
		t.Errorf("only %d operations could be cut", cuts)
	}
}
