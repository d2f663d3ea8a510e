package blk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/tiers/blk"
	"psrt/tiers/blk/blktest"
)

// TestDevicesAgree gives random calls to all kinds of devices; each answers
// like the one in memory.
func TestDevicesAgree(t *testing.T) {
	rng := seedtest.Rand(t)
	kinds := []blktest.Factory{
		inMemory(blk.MemoryConfig{Block: 4096, Seed: rng.Uint64()}), onDisk(blk.Config{Block: 4096}),
		onDisk(blk.Config{Block: 4096, Engine: blk.EnginePread}), sound(inMemory(blk.MemoryConfig{Block: 4096})),
	}
	type world struct {
		d     blk.Device
		buf   []byte
		files []int // in the order of opening
	}
	var worlds []*world
	for _, open := range kinds {
		d, _ := open(t)
		defer d.Close()
		worlds = append(worlds, &world{d: d, buf: blktest.Buffer(t, d, 64<<10)})
	}
	sizes := []int64{} // of files, as opened
	kind := func(err error) error {
		for _, e := range []error{fs.ErrExist, fs.ErrNotExist, blk.ErrRequest, blk.ErrNoSpace} {
			if errors.Is(err, e) {
				return e
			}
		}
		return err
	}
	for step := range 400 {
		op, name, other := rng.IntN(10), fmt.Sprint("f", rng.IntN(5)), fmt.Sprint("f", rng.IntN(5))
		size := int64(1+rng.IntN(16)) * 4096
		file, at, n := 0, int64(0), 0
		if len(sizes) > 0 {
			file = rng.IntN(len(sizes))
			n = 4096 * (1 + rng.IntN(int(sizes[file]/4096)))
			at = 4096 * rng.Int64N((sizes[file]-int64(n))/4096+1)
		}
		seed := byte(rng.Uint32())
		var want string
		var wantBytes []byte
		for i, w := range worlds {
			var got string
			var gotBytes []byte
			opened := int64(-1)
			switch {
			case op == 0:
				f, err := w.d.Create(name, size)
				got = fmt.Sprint("create ", name, kind(err))
				if err == nil {
					w.files, opened = append(w.files, f), size
				}
			case op == 1:
				r := blktest.Do(t, w.d, blk.Request{Op: blk.Make, Name: name, Len: size})[0]
				got = fmt.Sprint("make ", name, kind(r.Err))
				if r.Err == nil {
					w.files, opened = append(w.files, r.N), size
				}
			case op == 2:
				f, size, err := w.d.Open(name)
				got = fmt.Sprint("open ", name, size, kind(err))
				if err == nil {
					w.files, opened = append(w.files, f), size
				}
			case op == 3:
				got = fmt.Sprint("rename ", name, other, kind(w.d.Rename(name, other)))
			case op == 4 && seed%2 == 0:
				got = fmt.Sprint("remove ", name, kind(w.d.Remove(name)))
			case op == 4:
				got = fmt.Sprint("unlink ", name, kind(blktest.Do(t, w.d, blk.Request{Op: blk.Unlink, Name: name})[0].Err))
			case op == 5:
				names, err := w.d.List()
				got = fmt.Sprint("list ", names, kind(err))
			case len(w.files) == 0:
			case op == 6:
				for k := range w.buf[:n] {
					w.buf[k] = seed + byte(k/4096)
				}
				got = fmt.Sprint("write ", n, at, kind(blktest.Do(t, w.d, blk.Request{Op: blk.Write, File: w.files[file], Offset: at, Buf: w.buf[:n]})[0].Err))
			case op == 7:
				got = fmt.Sprint("discard ", n, at, kind(blktest.Do(t, w.d, blk.Request{Op: blk.Discard, File: w.files[file], Offset: at, Len: int64(n)})[0].Err))
			case op == 8:
				got = fmt.Sprint("read ", n, at, kind(blktest.Do(t, w.d, blk.Request{Op: blk.Read, File: w.files[file], Offset: at, Buf: w.buf[:n]})[0].Err))
				gotBytes = w.buf[:n]
			case seed%4 == 0:
				got = fmt.Sprint("close ", kind(w.d.CloseFile(w.files[file])))
				w.files = slices.Delete(w.files, file, file+1)
			}
			if i == 0 {
				want, wantBytes = got, gotBytes
				if opened >= 0 {
					sizes = append(sizes, opened)
				}
				continue
			}
			if got != want || !bytes.Equal(gotBytes, wantBytes) {
				t.Fatalf("step %d: %s says %q, %s said %q; bytes are equal: %t", step, w.d, got, worlds[0].d, want, bytes.Equal(gotBytes, wantBytes))
			}
		}
		if len(worlds[0].files) < len(sizes) {
			sizes = slices.Delete(sizes, file, file+1)
		}
	}
}

// TestLimited: no more than the rate, and several stand for several disks.
func TestLimited(t *testing.T) {
	m := blk.NewMemory(blk.MemoryConfig{})
	d := blk.NewLimited(openMemory(t, m), 1000, 0)
	f := blktest.Create(t, d, "a", 4096)
	buf := blktest.Buffer(t, d, 50*512)
	var rs []blk.Request
	for i := range 50 {
		rs = append(rs, blk.Request{Op: blk.Read, File: f, Buf: buf[i*512 : (i+1)*512]})
	}
	start := time.Now()
	blktest.Must(t, d, rs...)
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("50 requests at 1000 a second took %v", took)
	}
	slow := blk.NewLimited(openMemory(t, blk.NewMemory(blk.MemoryConfig{})), 1e6, 20*time.Millisecond)
	f = blktest.Create(t, slow, "a", 4096)
	start = time.Now()
	blktest.Must(t, slow, blk.Request{Op: blk.Sync, File: f})
	if took := time.Since(start); took < 20*time.Millisecond {
		t.Errorf("a request with 20 ms of latency took %v", took)
	}
}
