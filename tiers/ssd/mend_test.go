package ssd

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"psrt/tiers/blk"
)

// TestMendPage: each single bit is put right, and no two are taken for one.
func TestMendPage(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t, 0), 1))
	for _, size := range []int{512, 4096} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		p := pageInfo{gen: 7, time: 9}
		p.seal(b)
		want := bytes.Clone(b)
		for at := range size {
			bit := byte(1) << rng.IntN(8)
			b[at] ^= bit
			if !mendPage(b) || !bytes.Equal(b, want) {
				t.Fatalf("%d bytes: bit %#x of byte %d is not put right", size, bit, at)
			}
			other := rng.IntN(size)
			b[at] ^= bit
			b[other] ^= 1 << rng.IntN(8)
			if !bytes.Equal(b, want) && other != at && mendPage(b) {
				t.Fatalf("%d bytes: bits of bytes %d and %d are taken for one", size, at, other)
			}
			copy(b, want)
		}
		if mendPage(b) {
			t.Fatal("a sound page was mended")
		}
	}
}

// flipLog makes a small log: rows, newer ones of some, and deletions.
func flipLog(t *testing.T, seed uint64) (*rig, []*blk.Memory) {
	r, disks, _ := faultyRig(t, seed, 2, small, 40)
	r.fill(70)
	for k := range uint64(20) {
		if err := r.put(0, 3*k); err != nil {
			t.Fatal(err)
		}
	}
	for k := range uint64(5) {
		if err := r.del(0, 60+k); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.commit(); err != nil {
		t.Fatal(err)
	}
	r.settle()
	return r, disks
}

// holds says where bytes of a store lie that are not zero: those that count.
func holds(t *testing.T, m *blk.Memory, name string) (at []int64) {
	d, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	file, size, err := d.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := d.Buffers(4096)
	if err != nil {
		t.Fatal(err)
	}
	for off := int64(0); off < size; off += 4096 {
		if _, err := d.Submit([]blk.Request{{Op: blk.Read, File: file, Offset: off, Buf: buf}}); err != nil {
			t.Fatal(err)
		}
		var out [1]blk.Result
		for d.Poll(out[:]) == 0 {
		}
		if out[0].Err != nil {
			t.Fatal(out[0].Err)
		}
		for b := 0; b < len(buf); b += 512 {
			if len(bytes.Trim(buf[b:b+512], "\x00")) > 0 {
				for i := range int64(512) {
					at = append(at, off+int64(b)+i)
				}
			}
		}
	}
	return at
}

// TestEveryByte flips a bit in every byte (without PSRT_SSD_FLIPS, in one of some
// 40) of a small log's blocks that hold anything: it opens as it was, or is
// refused by file and place, or rows are that lie there; nothing is wrong without
// a word.
func TestEveryByte(t *testing.T) {
	seed := seed(t, 0)
	rng := rand.New(rand.NewPCG(seed, 5))
	next := func() int { return 1 + rng.IntN(80) }
	if os.Getenv("PSRT_SSD_FLIPS") != "" {
		next = func() int { return 1 }
	}
	r, disks := flipLog(t, seed)
	f := flips{t: t, rng: rng, disks: disks, want: r.snapshot()[0], acked: r.acked}
	r.close()
	for i, m := range disks {
		for _, name := range m.Names() {
			at := holds(t, m, name)
			for j := next() - 1; j < len(at); j += next() {
				f.flip(i, name, at[j])
			}
		}
	}
	t.Logf("%d flips: %d refused at opening, %d at reading a row, %d mended, the others in bytes that do not count or have a second copy", f.all, f.refused, f.rows, f.mended)
	if f.rows == 0 || f.mended == 0 {
		t.Fatal("none was in a row, or none in a summary")
	}
}

// flips counts what came of them.
type flips struct {
	t     *testing.T
	rng   *rand.Rand
	disks []*blk.Memory
	want  map[uint64]uint64
	acked uint64

	all, refused, rows, mended int
}

// flip opens a copy of the store in which a bit of a byte has changed.
func (f *flips) flip(disk int, name string, at int64) {
	f.all++
	f.t.Helper()
	var copies []*blk.Memory
	for _, m := range f.disks {
		copies = append(copies, m.Crashed(1))
	}
	if err := copies[disk].Corrupt(name, at, uint(f.rng.IntN(8))); err != nil {
		f.t.Fatal(err)
	}
	q := newRig(f.t, 40)
	rec, err := q.open(small, reopen(f.t, copies)...)
	var damage *CorruptError
	if err != nil {
		if !errors.As(err, &damage) || damage.File != name || damage.Offset > at || damage.Offset < at-8192 {
			f.t.Fatalf("%s, byte %d: %v", name, at, err)
		}
		f.refused++
		return
	}
	o := q.owners[0]
	if rec.Commit != f.acked || len(o.rows) != len(f.want) {
		f.t.Fatalf("%s, byte %d: commit %d with %d rows, want %d with %d", name, at, rec.Commit, len(o.rows), f.acked, len(f.want))
	}
	for key, p := range o.rows {
		v, ok := f.want[key]
		if !ok {
			f.t.Fatalf("%s, byte %d: key %d is there again", name, at, key)
		}
		o.rows[key] = place{p.slot, v}
	}
	bad := q.readAll(0)
	if len(bad) > 1 {
		f.t.Fatalf("%s, byte %d: one bit makes %d rows unreadable", name, at, len(bad))
	}
	for key, err := range bad {
		if !errors.As(err, &damage) || damage.File != name || damage.Offset > at || damage.Offset < at-64 {
			f.t.Fatalf("%s, byte %d, key %d: %v", name, at, key, err)
		}
	}
	f.rows += len(bad)
	f.mended += int(q.s.Stats().Mended)
	q.close()
}

// TestTwoBits: a summary in which more has changed refuses the log, by name and
// place: whose its rows are is not known.
func TestTwoBits(t *testing.T) {
	r, disks := flipLog(t, seed(t, 0))
	r.close()
	m := disks[0]
	for _, name := range m.Names() {
		if !strings.HasPrefix(name, "data-") {
			continue
		}
		for _, at := range []int64{64, 130} {
			if err := m.Corrupt(name, at, 3); err != nil {
				t.Fatal(err)
			}
		}
		q := newRig(t, 40)
		_, err := q.open(small, reopen(t, disks)...)
		var damage *CorruptError
		if !errors.As(err, &damage) || damage.File != name || damage.Offset != 0 {
			t.Fatalf("%v", err)
		}
		return
	}
}
