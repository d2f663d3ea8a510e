package inference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
	"psrt/tiers/table"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// build is the file of a table.
func build(t testing.TB, id uint32, l quant.Layout, rows map[uint64][]float32) []byte {
	t.Helper()
	var hashes []uint64
	for k := range rows {
		hashes = append(hashes, Hash(k))
	}
	slices.Sort(hashes)
	var b bytes.Buffer
	row := make([]byte, l.Bytes())
	var content table.Digest
	var hasher table.RowHasher
	for _, h := range hashes {
		check(t, l.Encode(row, rows[Key(h)]))
		content.Add(hasher.Hash(id, Key(h), row))
	}
	w, err := NewWriter(&b, id, l, int64(len(rows)), content)
	check(t, err)
	for _, h := range hashes {
		check(t, l.Encode(row, rows[Key(h)]))
		check(t, w.Add(h, row))
	}
	check(t, w.Close())
	return b.Bytes()
}

func open(t testing.TB, b []byte) *Table {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table.rows")
	check(t, os.WriteFile(path, b, 0o666))
	table, err := Open(path)
	check(t, err)
	t.Cleanup(func() { check(t, table.Close()) })
	return table
}

func randomRows(rng *rand.Rand, n, dim int) map[uint64][]float32 {
	rows := map[uint64][]float32{}
	for _, k := range []uint64{0, 1, math.MaxUint64, 1 << 63} {
		if len(rows) < n {
			rows[k] = nil
		}
	}
	for len(rows) < n {
		if k := uint64(len(rows)); k%2 == 0 {
			rows[k] = nil
		}
		rows[rng.Uint64()] = nil
	}
	for k := range rows {
		w := make([]float32, dim)
		for i := range w {
			w[i] = float32(rng.NormFloat64())
		}
		rows[k] = w
	}
	return rows
}

func TestHashIsInvertible(t *testing.T) {
	rng := seedtest.Rand(t)
	for range 100_000 {
		if k := rng.Uint64(); Key(Hash(k)) != k {
			t.Fatalf("%#x comes back as %#x", k, Key(Hash(k)))
		}
	}
	if Hash(0) != 0xe220a8397b1dcdaf { // the first output of SplitMix64 with seed 0
		t.Errorf("Hash(0) is %#x", Hash(0))
	}
}

// TestAgainstMap holds tables of many shapes to a Go map.
func TestAgainstMap(t *testing.T) {
	rng := seedtest.Rand(t)
	for _, c := range []struct {
		l    quant.Layout
		rows int
	}{
		{quant.Layout{Encoding: quant.F32, Dim: 1}, 0}, {quant.Layout{Encoding: quant.F32, Dim: 1}, 1},
		{quant.Layout{Encoding: quant.F32, Dim: 17}, 20_000}, {quant.Layout{Encoding: quant.F16, Dim: 17}, 20_000},
		{quant.Layout{Encoding: quant.I8, Dim: 17, Exact: 1}, 20_000}, {quant.Layout{Encoding: quant.F32, Dim: 300}, 500},
		{quant.Layout{Encoding: quant.F32, Dim: 4096}, 40},
	} {
		rows := randomRows(rng, c.rows, c.l.Dim)
		file := build(t, 7, c.l, rows)
		if again := build(t, 7, c.l, rows); !bytes.Equal(file, again) {
			t.Errorf("%+v: equal tables give different files", c.l)
		}
		table := open(t, file)
		if table.Len() != int64(len(rows)) || table.Table != 7 {
			t.Errorf("%+v: %d rows of table %d", c.l, table.Len(), table.Table)
		}
		var keys []uint64
		for k := range rows {
			keys = append(keys, k)
		}
		for range len(rows)/2 + 10 {
			keys = append(keys, rng.Uint64())
		}
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		dst := make([]float32, len(keys)*c.l.Dim)
		for i := range dst {
			dst[i] = 99
		}
		found, err := table.Gather(keys, dst)
		check(t, err)
		known := 0
		encoded, want := make([]byte, c.l.Bytes()), make([]float32, c.l.Dim)
		for i, k := range keys {
			clear(want)
			if w := rows[k]; w != nil {
				known++
				check(t, c.l.Encode(encoded, w))
				c.l.Decode(want, encoded)
			}
			if got := dst[i*c.l.Dim : (i+1)*c.l.Dim]; !slices.Equal(got, want) {
				t.Fatalf("%+v: key %d is %v, want %v", c.l, k, got, want)
			}
		}
		if found != known {
			t.Errorf("%+v: %d rows found, %d are there", c.l, found, known)
		}
		seen := 0
		check(t, table.Range(context.Background(), func(key uint64, _ []float32) error {
			seen++
			if rows[key] == nil {
				return fmt.Errorf("key %d came from nowhere", key)
			}
			return nil
		}))
		if seen != len(rows) {
			t.Errorf("%+v: %d of %d rows in Range", c.l, seen, len(rows))
		}
		check(t, table.Verify(context.Background()))
		if payload := len(rows) * (8 + c.l.Bytes()); len(rows) >= 20_000 && len(file) > payload*13/10 {
			t.Errorf("%+v: %d bytes for a payload of %d", c.l, len(file), payload)
		}
	}
}

// TestClumps makes keys whose hashes all have the same home: the longest way
// from home that there can be.
func TestClumps(t *testing.T) {
	rows := map[uint64][]float32{}
	for i := range uint64(3000) {
		rows[Key(1<<62+i)] = []float32{float32(i)}
		rows[Key(math.MaxUint64-i)] = []float32{-float32(i)} // beyond the last home
	}
	table := open(t, build(t, 1, quant.Layout{Encoding: quant.F32, Dim: 1}, rows))
	dst := make([]float32, 1)
	for k, w := range rows {
		if n, err := table.Gather([]uint64{k}, dst); n != 1 || err != nil || dst[0] != w[0] {
			t.Fatalf("key %d is %v, want %v; %d found, %v", k, dst, w, n, err)
		}
	}
	for _, hash := range []uint64{0, 1<<62 - 1, 1<<62 + 3000, math.MaxUint64 - 3000} {
		if n, err := table.Gather([]uint64{Key(hash)}, dst); n != 0 || err != nil || dst[0] != 0 {
			t.Errorf("hash %#x, which is not there: %v, %d found, %v", hash, dst, n, err)
		}
	}
	check(t, table.Verify(context.Background()))
}

func TestManyReaders(t *testing.T) {
	rows := randomRows(seedtest.Rand(t), 5000, 8)
	table := open(t, build(t, 1, quant.Layout{Encoding: quant.F32, Dim: 8}, rows))
	var keys []uint64
	for k := range rows {
		keys = append(keys, k)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			dst := make([]float32, 8*len(keys))
			if n, err := table.Gather(keys, dst); n != len(keys) || err != nil {
				t.Errorf("%d of %d found, %v", n, len(keys), err)
			}
		})
	}
	wg.Wait()
}

func TestMisuse(t *testing.T) {
	l := quant.Layout{Encoding: quant.F32, Dim: 2}
	row := make([]byte, 8)
	for name, f := range map[string]func(*Writer) error{
		"row of":    func(w *Writer) error { return w.Add(1, row[:4]) },
		"after":     func(w *Writer) error { return errors.Join(w.Add(5, row), w.Add(5, row)) },
		"announced": func(w *Writer) error { return errors.Join(w.Add(5, row), w.Close()) },
		"more than": func(w *Writer) error { return errors.Join(w.Add(5, row), w.Add(6, row), w.Add(7, row)) },
	} {
		w, err := NewWriter(&bytes.Buffer{}, 1, l, 2, table.Digest{})
		check(t, err)
		if err := f(w); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []quant.Layout{{}, {Encoding: quant.F32, Dim: 4097}} {
		if _, err := NewWriter(&bytes.Buffer{}, 1, bad, 2, table.Digest{}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	path := filepath.Join(t.TempDir(), "t")
	check(t, os.WriteFile(path, build(t, 1, l, map[uint64][]float32{1: {1, 2}}), 0o666))
	table, err := Open(path)
	check(t, err)
	check(t, errors.Join(table.Close(), table.Close()))
	if _, err := table.Gather([]uint64{1}, make([]float32, 2)); !errors.Is(err, ErrClosed) {
		t.Errorf("Gather after Close: %v", err)
	}
	if err := table.Verify(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Verify after Close: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, os.ErrNotExist) || errors.Is(err, outdir.ErrCorrupt) {
		t.Errorf("Open of nothing: %v", err)
	}
}
