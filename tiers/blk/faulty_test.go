package blk_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/bits"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/blk"
	"psrt/tiers/blk/blktest"
)

func faultyMemory(t *testing.T, faults ...blk.Fault) *blk.Faulty {
	return blk.NewFaulty(openMemory(t, blk.NewMemory(blk.MemoryConfig{Seed: 1})), seedtest.Seed(t), faults...)
}

func TestFaultsOfRequests(t *testing.T) {
	write, read := []blk.Op{blk.Write}, []blk.Op{blk.Read}
	for _, c := range []struct {
		name    string
		fault   blk.Fault
		op      blk.Op
		want    error
		n       int
		written int // bytes on the disk afterwards
	}{
		{"EIO on write", blk.Fault{Harm: blk.HarmIO, On: write}, blk.Write, blk.ErrIO, 0, 0},
		{"EIO after writing", blk.Fault{Harm: blk.HarmLate, On: write}, blk.Write, blk.ErrIO, 0, 4096},
		{"ENOSPC", blk.Fault{Harm: blk.HarmSpace, On: write, Name: "a*"}, blk.Write, blk.ErrNoSpace, 0, 0},
		{"short write", blk.Fault{Harm: blk.HarmShort, On: write}, blk.Write, blk.ErrIO, 2048, 2048},
		{"EIO on read", blk.Fault{Harm: blk.HarmIO, On: read}, blk.Read, blk.ErrIO, 0, 0},
		{"short read", blk.Fault{Harm: blk.HarmShort, On: read}, blk.Read, blk.ErrIO, 2048, 0},
		{"EIO on sync", blk.Fault{Harm: blk.HarmIO, On: []blk.Op{blk.Sync}}, blk.Sync, blk.ErrIO, 0, 0},
		{"gone", blk.Fault{Harm: blk.HarmGone}, blk.Write, fs.ErrNotExist, 0, 0},
		{"delay", blk.Fault{Harm: blk.HarmDelay, Polls: 20, On: write}, blk.Write, nil, 4096, 4096},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := faultyMemory(t)
			f := blktest.Create(t, d, "abc", 8192)
			buf := blktest.Buffer(t, d, 8192)
			for i := range buf {
				buf[i] = 7
			}
			d.Inject(c.fault)
			r := blktest.Do(t, d, blk.Request{Op: c.op, File: f, Buf: buf[:4096]})[0]
			if c.want == nil && r.Err != nil || !errors.Is(r.Err, c.want) || r.N != c.n {
				t.Errorf("%d bytes, %v; want %d, %v", r.N, r.Err, c.n, c.want)
			}
			if d.Fired() != 1 {
				t.Errorf("fired %d times", d.Fired())
			}
			d.Heal()
			blktest.Must(t, d, blk.Request{Op: blk.Read, File: f, Buf: buf})
			if got := bytes.Count(buf, []byte{7}); got != c.written {
				t.Errorf("%d bytes were written, want %d", got, c.written)
			}
		})
	}
}

func TestFaultsOfNames(t *testing.T) {
	d := faultyMemory(t,
		blk.Fault{Harm: blk.HarmSpace, On: []blk.Op{blk.Make}, Name: "a", Times: 2},
		blk.Fault{Harm: blk.HarmLate, On: []blk.Op{blk.Make}, Name: "b", Times: 2},
		blk.Fault{Harm: blk.HarmIO, Name: "c", Skip: 1, Times: 1})
	_, err := d.Create("a", 512)
	if !errors.Is(err, blk.ErrNoSpace) {
		t.Error(err)
	}
	if r := blktest.Do(t, d, blk.Request{Op: blk.Make, Name: "a", Len: 512})[0]; !errors.Is(r.Err, blk.ErrNoSpace) {
		t.Error(r.Err)
	}
	blktest.Create(t, d, "a", 512)
	if _, err = d.Create("b", 512); !errors.Is(err, blk.ErrIO) {
		t.Error(err)
	}
	if err = d.Remove("b"); err != nil {
		t.Errorf("a file that was made, and the answer lost: %v", err)
	}
	if r := blktest.Do(t, d, blk.Request{Op: blk.Make, Name: "b", Len: 512})[0]; !errors.Is(r.Err, blk.ErrIO) || r.N != 0 {
		t.Error(r)
	}
	blktest.Create(t, d, "c", 512)
	if err = d.Rename("c", "d"); !errors.Is(err, blk.ErrIO) {
		t.Error(err)
	}
	if err = d.Rename("c", "d"); err != nil {
		t.Error(err)
	}
	d.Inject(blk.Fault{Harm: blk.HarmGone, Name: "d"})
	if _, _, err = d.Open("d"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err = d.List(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("List of a directory that is gone: %v", err)
	}
	if _, _, err = d.Space(); err == nil {
		t.Error("Space of a directory that is gone")
	}
	d.Heal()
	if names, err := d.List(); err != nil || len(names) != 3 {
		t.Error(names, err)
	}
}

// TestFlips: one bit, on the disk or in memory, and the caller's memory is as
// it was after a write.
func TestFlips(t *testing.T) {
	for _, op := range []blk.Op{blk.Write, blk.Read} {
		d := faultyMemory(t)
		f := blktest.Create(t, d, "a", 4096)
		buf := blktest.Buffer(t, d, 8192)
		d.Inject(blk.Fault{Harm: blk.HarmFlip, On: []blk.Op{op}})
		blktest.Must(t, d, blk.Request{Op: blk.Write, File: f, Buf: buf[:4096]})
		for _, b := range buf[:4096] {
			if b != 0 {
				t.Fatal("the caller's memory changed")
			}
		}
		wrong := 0
		blktest.Must(t, d, blk.Request{Op: blk.Read, File: f, Buf: buf[4096:]})
		for _, b := range buf[4096:] {
			wrong += bits.OnesCount8(b)
		}
		if wrong != 1 {
			t.Errorf("%v: %d bits are wrong", op, wrong)
		}
		blktest.Must(t, d, blk.Request{Op: blk.Read, File: f, Buf: buf[4096:]})
		if again := bytes.Count(buf[4096:], []byte{0}); (again == 4096) != (op == blk.Read) {
			t.Errorf("%v: read again, %d bytes are right", op, again)
		}
	}
}

// TestChance: the same seed harms the same requests.
func TestChance(t *testing.T) {
	seed := seedtest.Seed(t)
	run := func() (harmed []int) {
		m := blk.NewMemory(blk.MemoryConfig{InOrder: true})
		d := blk.NewFaulty(openMemory(t, m), seed, blk.Fault{Harm: blk.HarmIO, On: []blk.Op{blk.Read}, Chance: .3, Times: -1})
		f := blktest.Create(t, d, "a", 512)
		buf := blktest.Buffer(t, d, 512)
		for i := range 200 {
			if blktest.Do(t, d, blk.Request{Op: blk.Read, File: f, Buf: buf})[0].Err != nil {
				harmed = append(harmed, i)
			}
		}
		return harmed
	}
	a, b := run(), run()
	if len(a) < 20 || len(a) > 120 || len(a) != len(b) || a[0] != b[0] || a[len(a)-1] != b[len(b)-1] {
		t.Errorf("harmed %d and %d of 200: %v, %v", len(a), len(b), a, b)
	}
}
