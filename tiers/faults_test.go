package tiers_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/tiers"
	"psrt/tiers/blk"
	"psrt/tiers/ssd"
)

// faulted is a table with places for few rows over a device that can be harmed,
// beside the same rows all in memory.
type faulted struct {
	t    *testing.T
	dev  *blk.Faulty
	d    *tiers.Disks
	m    *tiers.Tiered
	twin *tiers.Memory
	rows int
}

func newFaulted(t *testing.T, cfg tiers.DisksConfig, bytes int64) *faulted {
	r := seedtest.Rand(t)
	dev, err := blk.NewMemory(blk.MemoryConfig{Seed: r.Uint64(), Bytes: bytes}).Open()
	if err != nil {
		t.Fatal(err)
	}
	f := &faulted{t: t, dev: blk.NewFaulty(dev, r.Uint64())}
	if f.d, err = tiers.NewDisks([]blk.Device{f.dev}, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.d.Close(); err != nil {
			t.Error(err)
		}
	})
	c := tiers.Config{Disks: f.d, Node: -1, BatchRows: 400, MaxBytes: 2 << 20}
	if f.m, err = tiers.NewTiered(plainSpec, 1, c); err != nil {
		t.Fatal(err)
	}
	close1(t, f.m)
	if f.twin, err = tiers.NewMemory(plainSpec, 1, tiers.MemoryConfig{Node: -1}); err != nil {
		t.Fatal(err)
	}
	close1(t, f.twin)
	return f
}

// look looks keys up, and waits.
func (f *faulted) look(keys []uint64, create bool) *tiers.Lookup {
	l := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: create}
	for done := f.m.Start(l); !done; {
		for _, x := range f.d.Poll() {
			done = done || x == l
		}
	}
	return l
}

// update changes rows, made if need be. Only what is acknowledged is in the twin.
func (f *faulted) update(keys []uint64) error {
	l := f.look(keys, true)
	if l.Err != nil {
		return l.Err
	}
	grads := make([]float32, len(keys)*plainSpec.Dim)
	for i := range grads {
		grads[i] = float32(f.rows%7) + 1
	}
	f.rows += len(keys)
	f.m.Apply(l.Rows, grads)
	f.m.Release(l.Rows)
	w := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}
	if f.twin.Start(w); w.Err != nil {
		f.t.Fatal(w.Err)
	}
	f.twin.Apply(w.Rows, grads)
	return nil
}

// batch is how many rows are made at a time.
const batch = 400

func (f *faulted) fill(from, n int) {
	for at := from; at < from+n; at += batch {
		if err := f.update(keysFrom(at, batch)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// compare holds every row that was acknowledged to the twin's.
func (f *faulted) compare() {
	f.t.Helper()
	want := map[uint64][]float32{}
	err := f.twin.Range(func(key uint64, row []float32) bool {
		want[key] = slices.Clone(row)
		return true
	})
	if err != nil {
		f.t.Fatal(err)
	}
	err = f.m.Range(func(key uint64, row []float32) bool {
		if w := want[key]; w != nil && !sameBits(w, row) {
			f.t.Errorf("key %d: %v, want %v", key, row, w)
			return false
		}
		delete(want, key)
		return true
	})
	if err != nil || len(want) > 0 {
		f.t.Fatalf("%d rows are gone; %v", len(want), err)
	}
}

// TestFailingReads: a row that cannot be read fails the lookups that want it, with
// its key and the file, and no others; it is there when the disk is well.
func TestFailingReads(t *testing.T) {
	f := newFaulted(t, tiers.DisksConfig{}, 0)
	f.fill(0, 20_000)
	f.dev.Inject(blk.Fault{Harm: blk.HarmIO, On: []blk.Op{blk.Read}, Times: -1})
	l := f.look(keysFrom(0, 30), false)
	if !errors.Is(l.Err, blk.ErrIO) || !strings.Contains(l.Err.Error(), "row of key") || !strings.Contains(l.Err.Error(), "data-") {
		t.Fatalf("a disk that cannot be read: %v", l.Err)
	}
	for _, r := range l.Rows {
		if r != ^uint32(0) {
			t.Fatalf("a failed lookup holds rows %v", l.Rows)
		}
	}
	if l := f.look(keysFrom(19_990, 10), false); l.Err != nil {
		t.Errorf("rows in memory: %v", l.Err)
	} else {
		f.m.Release(l.Rows)
	}
	f.dev.Heal()
	f.compare()
}

// TestFailingWrites: what a device refuses to write is written elsewhere, as long
// as it takes anything; what it has acknowledged stays.
func TestFailingWrites(t *testing.T) {
	f := newFaulted(t, tiers.DisksConfig{}, 0)
	f.fill(0, 16_000)
	f.dev.Inject(blk.Fault{Harm: blk.HarmIO, On: []blk.Op{blk.Write}, Times: -1, Chance: 0.2})
	var failed error
	for at := 16_000; at < 50_000 && failed == nil; at += batch {
		failed = f.update(keysFrom(at, batch))
	}
	if f.dev.Fired() == 0 {
		t.Fatal("nothing failed")
	}
	if failed != nil && !strings.Contains(failed.Error(), "ssd: ") {
		t.Errorf("writes that fail: %v", failed)
	}
	f.dev.Heal()
	f.compare()
}

// TestFullDisks: at the limit that the user has set, and where the device itself is
// full, lookups that need room fail, with the figures and what to do; others go
// on, and nothing is lost.
func TestFullDisks(t *testing.T) {
	for name, c := range map[string]struct {
		limit, device int64
		fault         []blk.Fault
	}{
		"limit":  {limit: 8 << 20},
		"device": {device: 8 << 20},
		"late":   {fault: []blk.Fault{{Harm: blk.HarmSpace, On: []blk.Op{blk.Make}, Times: -1}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulted(t, tiers.DisksConfig{Limit: c.limit}, c.device)
			f.fill(0, 16_000)
			f.dev.Inject(c.fault...)
			read := func(from int) {
				l := f.look(keysFrom(from, 100), false)
				if l.Err != nil {
					t.Fatalf("rows from %d: %v", from, l.Err)
				}
				f.m.Release(l.Rows)
			}
			var failed error
			for at := 16_000; at < 100_000 && failed == nil; at += batch {
				read((at - 16_000) % 6000)
				failed = f.update(keysFrom(at, batch))
			}
			if !errors.Is(failed, tiers.ErrBudget) || !errors.Is(failed, ssd.ErrFull) || !strings.Contains(failed.Error(), "raise the limit") {
				t.Fatalf("after %d rows: %v", f.m.Len(), failed)
			}
			f.compare()
			for i := range 10 { // rows that the disk has make room for others
				read(6000 + 100*i)
			}
		})
	}
}

// TestSilentDisk: lookups do not wait for ever for a device that does not answer;
// their error names it. Rows in memory are served meanwhile, and when it answers
// at last all is as it was.
func TestSilentDisk(t *testing.T) {
	woken := make(chan struct{}, 1)
	cfg := tiers.DisksConfig{Silence: 30 * time.Millisecond, Wake: func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}}
	f := newFaulted(t, cfg, 0)
	f.fill(0, 20_000)
	f.dev.Inject(blk.Fault{Harm: blk.HarmDelay, On: []blk.Op{blk.Read}, Times: -1, Polls: 1 << 60})
	for round := range 3 {
		l := &tiers.Lookup{Keys: keysFrom(40*round, 30), Rows: make([]uint32, 30)}
		if f.m.Start(l) {
			t.Fatalf("rows on disk are there: %v", l.Err)
		}
		for done := false; !done; {
			<-woken // nobody polls who is not called
			for _, x := range f.d.Poll() {
				done = done || x == l
			}
		}
		var silent *ssd.SilentError
		if !errors.As(l.Err, &silent) || silent.For < cfg.Silence || !strings.Contains(l.Err.Error(), f.dev.String()) {
			t.Fatalf("a disk that says nothing: %v", l.Err)
		}
		if got := f.d.Silent(cfg.Silence); got != f.dev.String() {
			t.Errorf("silent is %q, want %q", got, f.dev.String())
		}
		if got := f.d.Silent(time.Hour); got != "" {
			t.Errorf("%q has been silent for an hour", got)
		}
		if l := f.look(keysFrom(19_990, 10), false); l.Err != nil {
			t.Errorf("rows in memory: %v", l.Err)
		} else {
			f.m.Release(l.Rows)
		}
	}
	f.dev.Heal()
	if l := f.look(keysFrom(0, 100), false); l.Err != nil {
		t.Error(l.Err)
	}
	f.compare()
}
