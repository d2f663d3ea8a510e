package ssd

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"psrt/tiers/blk"
)

// Faults survived, in this file, on real files but for the second test: the limit
// is what the disk says that they take; devices of unlike room, one of them full,
// for a while or for good; a directory that disappears.

// taken is what du says of directories.
func taken(t *testing.T, dirs []string) (n int64) {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) { // an old manifest, removed meanwhile
				return nil
			}
			if err == nil {
				n += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestLimitOnDisk overwrites rows under a limit, then lets most of them go.
func TestLimitOnDisk(t *testing.T) {
	for _, scratch := range []bool{true, false} {
		seed := seed(t, 0)
		rng := rand.New(rand.NewPCG(seed, 1))
		dirs := []string{t.TempDir(), t.TempDir()}
		devs, err := openDirs(dirs)
		if err != nil {
			t.Fatal(err)
		}
		const limit, keys = 16 << 20, 7000
		r := newRig(t, 1000)
		r.mustOpen(Config{Limit: limit, SegmentBytes: 256 << 10, Scratch: scratch}, devs...)
		most := int64(0)
		for i := range 4 * keys {
			if err := r.put(0, uint64(rng.IntN(keys))); err != nil {
				t.Fatal(err)
			}
			if i%500 == 0 {
				r.poll()
				if err := r.retry(func() error { _, err := r.s.Commit(nil); return err }); err != nil {
					t.Fatal(err)
				}
				most = max(most, taken(t, dirs))
			}
		}
		if most > limit || most < limit/2 {
			t.Errorf("scratch %v: the files took %d bytes, the limit is %d", scratch, most, limit)
		}
		for k := range uint64(keys) {
			if k%10 > 0 && r.owners[0].rows[k] != (place{}) {
				if err := r.del(0, k); err != nil {
					t.Fatal(err)
				}
			}
		}
		// What is free is punched as segments are compacted: a tenth is overwritten.
		for range 2 * keys {
			if err := r.put(0, uint64(rng.IntN(keys/10)*10)); err != nil {
				t.Fatal(err)
			}
			r.poll()
		}
		for range 3 {
			if err := r.commit(); err != nil {
				t.Fatal(err)
			}
			r.settle()
		}
		now := taken(t, dirs)
		t.Logf("scratch %v: limit %d, at most %d bytes, %d with a tenth of the rows; the store says %d", scratch, limit, most, now, r.s.Stats().FileBytes)
		if now > most*3/4 {
			t.Errorf("scratch %v: of %d bytes %d are still taken by a tenth of the rows", scratch, most, now)
		}
		r.close()
	}
}

// TestUnlikeRoom: the smaller device is full, and the other one takes the rest.
func TestUnlikeRoom(t *testing.T) {
	var disks []*blk.Memory
	for _, room := range []int64{4 << 20, 1 << 28, 10 << 20} {
		disks = append(disks, blk.NewMemory(blk.MemoryConfig{Bytes: room, Seed: seed(t, 0)}))
	}
	r := newRig(t, 1000)
	r.mustOpen(Config{SegmentBytes: 256 << 10}, reopen(t, disks)...)
	for round := range 3 {
		r.fill(30_000)
		t.Logf("round %d: %+v", round, r.s.Stats())
	}
	if err := r.verify(r.snapshot()); err != nil {
		t.Fatal(err)
	}
	for i, d := range r.s.disks {
		if d.total < segmentsAtLeast {
			t.Errorf("device %d has only %d segments", i, d.total)
		}
	}
	r.close()
}

// TestRoomAgain: a disk that was full is used as soon as it has room.
func TestRoomAgain(t *testing.T) {
	r, _, faults := faultyRig(t, seed(t, 0), 1, small, 1000)
	r.s.growAgain = 0
	faults[0].Inject(blk.Fault{Harm: blk.HarmSpace, On: []blk.Op{blk.Make}, Name: "data-*", Times: -1})
	var full *FullError
	k := uint64(0)
	for ; full == nil; k++ {
		err := r.retry1(func() error { _, err := r.owners[0].log.Append(k, make([]byte, 1000)); return err })
		if err != nil && !errors.As(err, &full) {
			t.Fatal(err)
		}
	}
	if !errors.Is(full, ErrFull) || full.Cause == nil {
		t.Fatalf("%v", full)
	}
	faults[0].Heal()
	for range 5000 {
		if err := r.put(0, k); err != nil {
			t.Fatal(err)
		}
		k++
	}
	r.close()
}

// TestDirectoryDisappears: what is open stays readable; the next start says which
// directory is missing.
func TestDirectoryDisappears(t *testing.T) {
	dirs := []string{t.TempDir(), filepath.Join(t.TempDir(), "second")}
	if err := os.Mkdir(dirs[1], 0o700); err != nil {
		t.Fatal(err)
	}
	devs, err := openDirs(dirs)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 1000)
	r.mustOpen(Config{SegmentBytes: 256 << 10}, devs...)
	r.fill(2000)
	if err := os.RemoveAll(dirs[1]); err != nil {
		t.Fatal(err)
	}
	if bad := r.readAll(0); len(bad) > 0 {
		t.Fatalf("%d rows cannot be read: %v", len(bad), bad)
	}
	_ = r.s.Close() // the directory cannot be synced
	if _, err := blk.Open(dirs[1], blk.Config{}); err == nil || !strings.Contains(err.Error(), dirs[1]) {
		t.Fatalf("a missing directory: %v", err)
	}
	// The first one alone, and with an empty one in its place.
	for _, with := range [][]string{dirs[:1], {dirs[0], t.TempDir()}} {
		devs, err := openDirs(with)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newRig(t, 1000).open(Config{}, devs...); !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), with[len(with)-1]) {
			t.Fatalf("%v: %v", with, err)
		}
	}
}
