package inference

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
)

// use opens a file and reads it in every way.
func use(path string, keys []uint64) error {
	table, err := Open(path)
	if err != nil {
		return err
	}
	defer table.Close()
	_, err = table.Gather(keys, make([]float32, len(keys)*table.Layout.Dim))
	return errors.Join(err, table.Verify(context.Background()))
}

func TestDamage(t *testing.T) {
	rng := seedtest.Rand(t)
	good := build(t, 3, quant.Layout{Encoding: quant.F16, Dim: 4}, randomRows(rng, 300, 4))
	path := filepath.Join(t.TempDir(), "table.rows")
	refused := func(what string, at int, b []byte) {
		t.Helper()
		check(t, os.WriteFile(path, b, 0o666))
		if err := use(path, []uint64{1, 2, 3}); !errors.Is(err, outdir.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Fatalf("%s at %d: %v", what, at, err)
		}
	}
	check(t, os.WriteFile(path, good, 0o666))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	for at := range good {
		_, err := f.WriteAt([]byte{good[at] ^ 1<<rng.IntN(8)}, int64(at))
		check(t, err)
		if err := use(path, []uint64{1, 2, 3}); !errors.Is(err, outdir.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Fatalf("a flipped bit at %d: %v", at, err)
		}
		_, err = f.WriteAt(good[at:at+1], int64(at))
		check(t, err)
	}
	for _, n := range []int{0, 1, headerBytes, headerBytes + 4096, len(good) - 64, len(good) - 1} {
		refused("truncated", n, good[:n])
	}
	refused("longer", 0, append(bytes.Clone(good), make([]byte, 4096)...))
	swapped := bytes.Clone(good) // two blocks, each whole
	copy(swapped[headerBytes:], good[headerBytes+4096:headerBytes+8192])
	copy(swapped[headerBytes+4096:], good[headerBytes:headerBytes+4096])
	refused("swapped blocks", 0, swapped)
	later := bytes.Clone(good)
	binary.LittleEndian.PutUint32(later[8:], Format+1)
	check(t, os.WriteFile(path, later, 0o666))
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "format 3, this psrt reads 1 to 2; use a newer psrt") {
		t.Errorf("a later format: %v", err)
	}
	check(t, os.WriteFile(path, good, 0o666))
	check(t, use(path, []uint64{1, 2, 3}))
}

// TestCutWhileMapped: what the kernel tells by SIGBUS comes as an error, and
// what is still there can be read on.
func TestCutWhileMapped(t *testing.T) {
	rng := seedtest.Rand(t)
	rows := randomRows(rng, 20_000, 8)
	path := filepath.Join(t.TempDir(), "table.rows")
	check(t, os.WriteFile(path, build(t, 3, quant.Layout{Encoding: quant.F32, Dim: 8}, rows), 0o666))
	table, err := Open(path)
	check(t, err)
	defer table.Close()
	var keys []uint64
	for k := range rows {
		keys = append(keys, k)
	}
	dst := make([]float32, 8*len(keys))
	_, err = table.Gather(keys[:len(keys)/2], dst) // some blocks are known as good
	check(t, err)
	check(t, os.Truncate(path, 100_000))
	if _, err := table.Gather(keys, dst); !errors.Is(err, outdir.ErrCorrupt) || !strings.Contains(err.Error(), "cut short while it was in use") {
		t.Fatalf("reading a file that was cut short: %v", err)
	}
	if err := table.Verify(context.Background()); !errors.Is(err, outdir.ErrCorrupt) {
		t.Fatalf("verifying a file that was cut short: %v", err)
	}
	ok := 0
	for _, k := range keys {
		if n, err := table.Gather([]uint64{k}, dst); err == nil && n == 1 {
			ok++
		}
	}
	if ok < 500 || ok > len(keys)/2 {
		t.Errorf("%d of %d rows can be read of the tenth that is left", ok, len(keys))
	}
}

// FuzzOpen gives the reader files whose checksums are right and whose contents
// are not: it may refuse or answer, but not fail otherwise.
func FuzzOpen(f *testing.F) {
	rows := map[uint64][]float32{1: {1, 2}, 2: {3, 4}, 9: {5, 6}}
	for _, l := range []quant.Layout{{Encoding: quant.F32, Dim: 2}, {Encoding: quant.F16, Dim: 2}, {Encoding: quant.I8, Dim: 2, Exact: 1}} {
		b := build(f, 1, l, rows)
		f.Add(b[:64], b[headerBytes:headerBytes+256], uint64(1), uint64(3))
	}
	f.Fuzz(func(t *testing.T, head, block []byte, blocks, rows uint64) {
		header := make([]byte, headerBytes)
		copy(header, head)
		binary.LittleEndian.PutUint32(header[headerBytes-4:], crc32.Checksum(header[:headerBytes-4], castagnoli))
		size := max(len(block), 4)
		if h, err := decodeHeader(header); err == nil {
			size = h.blockBytes
		}
		file := header
		for n := range min(blocks, 3) {
			b := make([]byte, size)
			copy(b, block)
			binary.LittleEndian.PutUint32(b, blockSum(n, b))
			file = append(file, b...)
		}
		file = append(file, encodeFooter(blocks, rows)...)
		path := filepath.Join(t.TempDir(), "t")
		check(t, os.WriteFile(path, file, 0o666))
		if err := use(path, []uint64{0, 1, 2, 9}); err != nil && !errors.Is(err, outdir.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
