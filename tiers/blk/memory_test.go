package blk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/blk"
	"psrt/tiers/blk/blktest"
)

func openMemory(t *testing.T, m *blk.Memory) blk.Device {
	t.Helper()
	d, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestCrashKeepsWhatWasSynced writes numbered versions of blocks and checks
// after each crash, against plain lists of versions, that every block is one
// of those that a disk may keep.
func TestCrashKeepsWhatWasSynced(t *testing.T) {
	rng := seedtest.Rand(t)
	const blocks = 12
	lost, torn, inFlight := 0, 0, 0
	for range 300 {
		power := rng.IntN(4) > 0
		m := blk.NewMemory(blk.MemoryConfig{Seed: rng.Uint64(), Depth: 8})
		d := openMemory(t, m)
		unit := d.Block()
		f := blktest.Create(t, d, "a", int64(blocks*unit))
		buf := blktest.Buffer(t, d, 64*unit)

		synced := [blocks]uint64{}  // the version that must not be lost
		later := [blocks][]uint64{} // what may be there instead
		version := uint64(0)
		write := func(i int) blk.Request {
			version++
			first, n := rng.IntN(blocks), 1+rng.IntN(3)
			n = min(n, blocks-first)
			b := buf[i*4*unit:][:n*unit]
			for k := range n {
				binary.LittleEndian.PutUint64(b[k*unit:], version)
				later[first+k] = append(later[first+k], version)
			}
			return blk.Request{Op: blk.Write, File: f, Offset: int64(first * unit), Buf: b}
		}
		for range rng.IntN(20) {
			switch rng.IntN(4) {
			case 0:
				blktest.Must(t, d, blk.Request{Op: blk.Sync, File: f})
				for b := range later {
					if n := len(later[b]); n > 0 {
						synced[b], later[b] = later[b][n-1], nil
					}
				}
			default:
				blktest.Must(t, d, write(0))
			}
		}
		answered := [blocks]uint64{}
		for b := range answered {
			answered[b] = synced[b]
			if n := len(later[b]); n > 0 {
				answered[b] = later[b][n-1]
			}
		}
		if !power { // what was answered is certain
			synced, later = answered, [blocks][]uint64{}
		}
		// And some that nobody waits for; a Sync among them promises nothing.
		var rs []blk.Request
		for i := range rng.IntN(4) {
			rs = append(rs, write(1+i))
		}
		rs = append(rs, blk.Request{Op: blk.Sync, File: f})
		if n, err := d.Submit(rs); n != len(rs) || err != nil {
			t.Fatal(n, err)
		}
		seed := rng.Uint64()
		twin := m.Crashed(seed)
		if power {
			m.Crash(seed)
		} else {
			m.Kill(seed)
		}
		if _, err := d.Submit(rs[:1]); !errors.Is(err, blk.ErrCrashed) {
			t.Fatalf("Submit after the crash: %v", err)
		}
		if d.Poll(make([]blk.Result, 8)) != 0 {
			t.Fatal("results after the crash")
		}

		got := contents(t, m)
		if power && !bytes.Equal(got, contents(t, twin)) {
			t.Fatal("Crashed and Crash differ for one seed")
		}
		states := map[uint64]bool{}
		for b := range blocks {
			v := binary.LittleEndian.Uint64(got[b*unit:])
			if v != synced[b] && !slices.Contains(later[b], v) {
				t.Fatalf("block %d holds version %d; synced was %d, later came %v (power cut: %t)", b, v, synced[b], later[b], power)
			}
			if v != answered[b] && v < answered[b] {
				lost++
			}
			if slices.Contains(later[b], v) && v > answered[b] {
				inFlight++
			}
			states[v] = true
		}
		if len(states) > 2 {
			torn++
		}
		if !bytes.Equal(got, contents(t, m)) {
			t.Fatal("the contents change after the crash")
		}
	}
	if lost == 0 || torn == 0 || inFlight == 0 {
		t.Errorf("%d writes lost, %d states mixed, %d kept from flight: the crashes are too gentle", lost, torn, inFlight)
	}
}

func contents(t *testing.T, m *blk.Memory) []byte {
	t.Helper()
	d := openMemory(t, m)
	f, size, err := d.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	buf := blktest.Buffer(t, d, int(size))
	blktest.Must(t, d, blk.Request{Op: blk.Read, File: f, Buf: buf})
	got := bytes.Clone(buf)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestCrashAndNames: names are durable when answered, and in flight they are
// one or the other.
func TestCrashAndNames(t *testing.T) {
	seen := map[int64]bool{}
	gone := map[bool]bool{}
	for seed := range uint64(60) {
		m := blk.NewMemory(blk.MemoryConfig{Seed: seed})
		d := openMemory(t, m)
		blktest.Create(t, d, "a", 4096)
		blktest.Create(t, d, "b", 4096)
		blktest.Create(t, d, "c", 4096)
		if err := d.Rename("b", "new"); err != nil {
			t.Fatal(err)
		}
		if err := d.Remove("c"); err != nil {
			t.Fatal(err)
		}
		rs := []blk.Request{{Op: blk.Make, Name: "made", Len: 8192}, {Op: blk.Unlink, Name: "a"}}
		if n, err := d.Submit(rs); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		m.Crash(seed)
		if m.Size("new") != 4096 || m.Size("b") != -1 || m.Size("c") != -1 {
			t.Fatalf("seed %d: files %q after the crash", seed, m.Names())
		}
		seen[m.Size("made")] = true
		gone[m.Size("a") < 0] = true
	}
	if !seen[-1] || !seen[0] || !seen[8192] || len(seen) != 3 || len(gone) != 2 {
		t.Errorf("sizes of the file being made: %v; file being removed is gone: %v", seen, gone)
	}
}

// TestStepsEndAnywhere: Step stops a run at each of its steps, and room and
// locks are in order afterwards.
func TestStepsEndAnywhere(t *testing.T) {
	run := func(m *blk.Memory) error {
		d := openMemory(t, m)
		defer d.Close()
		f, err := d.Create("a", 8192)
		if err != nil {
			return err
		}
		buf, err := d.Buffers(4096)
		if err != nil {
			return err
		}
		for _, r := range []blk.Request{
			{Op: blk.Write, File: f, Buf: buf}, {Op: blk.Discard, File: f, Offset: 4096, Len: 4096},
			{Op: blk.Sync, File: f}, {Op: blk.Make, Name: "b", Len: 4096}, {Op: blk.Unlink, Name: "b"},
		} {
			if _, err := d.Submit([]blk.Request{r}); err != nil {
				return err
			}
			for {
				var out [1]blk.Result
				if d.Poll(out[:]) == 1 {
					break
				}
				if _, err := d.List(); err != nil {
					return err
				}
			}
		}
		if err := d.Rename("a", "b"); err != nil {
			return err
		}
		return d.Remove("b")
	}
	for stop := 1; ; stop++ {
		steps := 0
		var m *blk.Memory
		m = blk.NewMemory(blk.MemoryConfig{Bytes: 1 << 20, Step: func() {
			if steps++; steps == stop {
				m.Crash(uint64(stop))
			}
		}})
		err := run(m)
		if err != nil && !errors.Is(err, blk.ErrCrashed) {
			t.Fatalf("step %d: %v", stop, err)
		}
		d := openMemory(t, m)
		used := int64(0)
		for _, name := range m.Names() {
			used += m.Size(name)
		}
		if free, total, err := d.Space(); err != nil || total-free > used {
			t.Errorf("step %d: %d bytes of room are taken by files of %d: %v", stop, total-free, used, err)
		}
		d.Close()
		if steps < stop {
			if err != nil || stop < 10 {
				t.Fatalf("the run ended after %d steps with %v", steps, err)
			}
			return
		}
	}
}

func TestMemoryIsFull(t *testing.T) {
	m := blk.NewMemory(blk.MemoryConfig{Bytes: 64 << 10})
	d := openMemory(t, m)
	f := blktest.Create(t, d, "a", 48<<10)
	_, err := d.Create("b", 32<<10)
	if !errors.Is(err, blk.ErrNoSpace) {
		t.Fatalf("Create beyond the disk's room: %v", err)
	}
	blktest.Must(t, d, blk.Request{Op: blk.Discard, File: f, Len: 32 << 10})
	blktest.Create(t, d, "b", 32<<10)
	buf := blktest.Buffer(t, d, 32<<10)
	r := blktest.Do(t, d, blk.Request{Op: blk.Write, File: f, Buf: buf})[0]
	if !errors.Is(r.Err, blk.ErrNoSpace) || r.N != 16<<10 {
		t.Errorf("writing to discarded blocks of a full disk: %d bytes, %v", r.N, r.Err)
	}
	if err := d.Remove("b"); err != nil {
		t.Fatal(err)
	}
	if free, _, _ := d.Space(); free != 0 {
		t.Errorf("%d bytes are free while the removed file is open", free)
	}
}

func TestMemoryCorrupt(t *testing.T) {
	m := blk.NewMemory(blk.MemoryConfig{})
	d := openMemory(t, m)
	blktest.Create(t, d, "a", 4096)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Corrupt("a", 1000, 3); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 4096)
	want[1000] = 8
	if !bytes.Equal(contents(t, m), want) {
		t.Error("not that bit, or more, is wrong")
	}
	if err := m.Corrupt("a", 4096, 0); !errors.Is(err, blk.ErrRequest) {
		t.Errorf("beyond the end: %v", err)
	}
	if _, _, err := openMemory(t, m).Open("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
