package ckpt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/tiers/ckpt/files"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew (only for a new format)")

// read opens and reads all of a model, as a loader does, without Verify.
func read(dir string) error {
	m, err := Open(dir)
	if err != nil {
		return err
	}
	for _, s := range m.Tables {
		if err := m.Rows(context.Background(), s.ID, 1, nil, func([]uint64, []float32) error { return nil }); err != nil {
			return err
		}
	}
	for _, d := range m.Dense {
		if err := m.DenseBlocks(context.Background(), d.ID, func(int64, []float32, []float32) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// TestEveryByteCounts flips bits of each byte of each file of a model: a plain read must
// refuse the damage and name the file.
func TestEveryByteCounts(t *testing.T) {
	dir := t.TempDir()
	m := makeModel(1, 5)
	check(t, m.save(files.OS{}, dir, false))
	found, err := filepath.Glob(filepath.Join(dir, "parts-*", "*.part"))
	check(t, err)
	if len(found) != 6 {
		t.Fatalf("parts %v", found)
	}
	for _, path := range append(found, filepath.Join(dir, ManifestName)) {
		good, err := os.ReadFile(path)
		check(t, err)
		bits := 2 // of each byte; which ones changes from byte to byte
		if filepath.Base(path) == ManifestName {
			bits = 1
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		check(t, err)
		for i := range good {
			for b := range bits {
				_, err := f.WriteAt([]byte{good[i] ^ 1<<((5*b+i)%8)}, int64(i))
				check(t, err)
				if err := read(dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
					t.Fatalf("byte %d, bit %d of %s: %v", i, (5*b+i)%8, path, err)
				}
			}
			_, err := f.WriteAt(good[i:i+1], int64(i))
			check(t, err)
		}
		check(t, f.Close())
		for _, cut := range [][]byte{nil, good[:1], good[:len(good)/2], good[:len(good)-1], append(bytes.Clone(good), 0)} {
			check(t, os.WriteFile(path, cut, 0o666))
			if err := read(dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Fatalf("%d of %d bytes of %s: %v", len(cut), len(good), path, err)
			}
		}
		check(t, os.WriteFile(path, good, 0o666))
	}
	check(t, m.same(dir))
	check(t, os.Remove(found[2]))
	if err := read(dir); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a missing part: %v", err)
	}
}

// TestGolden opens the models of all formats there ever were.
func TestGolden(t *testing.T) {
	check(t, makeModel(1, 6).same(filepath.Join("testdata", "format1"))) // its parts have no ids
	ids := filepath.Join("testdata", "format1-ids")
	if *rewrite {
		check(t, os.RemoveAll(ids))
		check(t, makeModel(1, 6).save(files.OS{}, ids, false))
		check(t, os.Remove(filepath.Join(ids, ".lock")))
	}
	check(t, makeModel(1, 6).same(ids))
}

// TestGoldenHistory opens histories of formats 2 and 3: a base, two deltas by another
// number of lanes, and one for serving.
func TestGoldenHistory(t *testing.T) {
	for name, g := range goldenHistories {
		t.Run(name, func(t *testing.T) { goldenHistory(t, filepath.Join("testdata", name), g) })
	}
}

func goldenHistory(t *testing.T, dir string, g goldenHistoryOf) {
	if *rewrite {
		check(t, os.RemoveAll(dir))
		w := newTwin(42)
		w.small = true
		h, err := OpenHistory(background, dir, HistoryOptions{})
		check(t, err)
		for i, o := range []NextOptions{{}, {Delta: true}, {Delta: true}, {Delta: true, Quantise: QuantInt8}} {
			o.Compress = g.compress
			w.train(g.events)
			m, err := w.commit(h, o, 1+i%2)
			check(t, err)
			t.Logf("generation %d: digest %s", m.Number, m.Digest)
		}
		check(t, h.Close())
		check(t, os.Remove(filepath.Join(dir, ".lock")))
	}
	// By generation: the digest of all rows and dense blocks, and the rows.
	for i, want := range g.generations {
		m, err := OpenAt(background, dir, uint64(i+1))
		check(t, err)
		n := 0
		for _, s := range m.Tables {
			check(t, m.Rows(background, s.ID, 1, nil, func(keys []uint64, _ []float32) error { n += len(keys); return nil }))
		}
		if m.Digest != want.digest || n != want.rows || len(m.Chain()) != i+1 || m.Step != int64(i+1) {
			t.Errorf("generation %d: digest %s, %d rows, chain of %d, step %d, want %v", i+1, m.Digest, n, len(m.Chain()), m.Step, want)
		}
		// What the digest says is in the files, as far as they have all of it.
		s, err := look(background, files.NewDir(dir))
		check(t, err)
		chain, err := s.descent(background, uint64(i+1))
		check(t, err)
		r := &Report{Models: map[uint64]string{}}
		check(t, r.whole(background, modelOf(s.fs, chain), 1))
		if len(r.Problems) > 0 || len(r.Digests) != 1 && !m.WeightsOnly {
			t.Errorf("generation %d: %v, %v", i+1, r.Problems, r.Digests)
		}
		if saved := savedBytes(t, m); (saved > 0) != (g.compress != CompressNone && m.Quantise == QuantNone) {
			t.Errorf("generation %d: %d bytes were saved", i+1, saved)
		}
	}
	wellVerified(t, dir)
}

type goldenHistoryOf struct {
	events      int // between two generations
	compress    string
	generations []goldenGeneration
}

type goldenGeneration struct {
	digest string
	rows   int
}

var goldenHistories = map[string]goldenHistoryOf{
	"format2": {12, CompressNone, []goldenGeneration{
		{"83e040bf40816a05d44b9cce52c0904d7bde13235dc8551408d61de1cfeb88a7", 8},
		{"13eedc3b96c3bf67a1f4e3081cae277c6481fa67dce64f94d2e0751018761a1b", 17},
		{"585dec979112011f4bf2f9f93407472b869c0ff88ac835aaf6431060995ce203", 25},
		{"f6b3f205ac296b072a94eaade5b22cdb0e99d8961fba8c06119c73761a207496", 32},
	}},
	"format3": {150, CompressLZ4, []goldenGeneration{
		{"17c283cd52f7025a7564c2412f8fccb869069d383bf41d56e5c83eb6d49cfb1c", 88},
		{"c392fee93ce12796ac25322e166dff139899e59d7ef1fd93b90e03df0926e4a2", 156},
		{"e48ec60519da8493293ffcbb090a2bcd243a8e4c93aea97c2481e41d5b9b3dec", 207},
		{"4a50e459bded71faf828b3b234357a4deb5b79087b7dc5b1c6a2b9d02242dd9e", 232},
	}},
}

func TestNewerFormatsAreRefused(t *testing.T) {
	m := Manifest{Format: newest + 1}
	b, err := m.render()
	check(t, err)
	if _, err := parseManifest("x", b); err == nil || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "use a newer psrt") {
		t.Errorf("a manifest of the future: %v", err)
	}
	h := header{version: newest + 1, kind: kindRows}
	if _, err := decodeHeader(h.encode()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("format %d", newest+1)) {
		t.Errorf("a part of the future: %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	good, err := os.ReadFile(filepath.Join("testdata", "format1", ManifestName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(manifestHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest("x", b)
		if err != nil {
			// The checksum keeps most inputs out; what is behind it must
			// stand alone.
			raw := Manifest{Meta: b}
			if r, err := raw.render(); err == nil {
				_, _ = parseManifest("x", r)
			}
			return
		}
		if m.validate() != nil {
			t.Fatal("an invalid manifest was accepted")
		}
	})
}

// FuzzHistory gives a shelf a manifest and a HEAD from outside.
func FuzzHistory(f *testing.F) {
	for n := range uint64(4) {
		b, err := os.ReadFile(filepath.Join("testdata", "format2", manifestFile(n+1)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[len(manifestHead)+64+len(manifestMid):len(b)-len(manifestTail)], []byte("{}"), "{}")
	}
	f.Fuzz(func(t *testing.T, manifest, head []byte, ticket string) {
		_, _ = WriterFor(context.Background(), ticket)
		dir := t.TempDir()
		sum := sha256.Sum256(manifest)
		whole := []byte(manifestHead + hex.EncodeToString(sum[:]) + manifestMid + string(manifest) + manifestTail)
		sum = sha256.Sum256(head)
		if err := errors.Join(os.WriteFile(filepath.Join(dir, manifestFile(2)), whole, 0o666),
			os.WriteFile(filepath.Join(dir, headName), fmt.Appendf(head, "\n%x\n", sum), 0o666)); err != nil {
			t.Fatal(err)
		}
		m, err := Open(dir)
		if err == nil && len(m.Parts) > 0 {
			t.Fatal("a history without parts was opened")
		}
		if _, err := VerifyAll(context.Background(), dir, 1); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzPart(f *testing.F) {
	found, err := filepath.Glob(filepath.Join("testdata", "format1", "parts-*", "*.part"))
	if err != nil || len(found) == 0 {
		f.Fatal(err, "no golden parts")
	}
	for _, path := range found {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, strings.HasPrefix(filepath.Base(path), "d"), int64(3))
	}
	deltas, err := filepath.Glob(filepath.Join("testdata", "format[23]", "parts-*", "*.part"))
	if err != nil || len(deltas) == 0 {
		f.Fatal(err, "no golden parts")
	}
	for _, path := range deltas {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, strings.HasPrefix(filepath.Base(path), "d"), int64(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, dense bool, records int64) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "parts-x"), 0o777); err != nil {
			t.Fatal(err)
		}
		p := Part{File: "a.part", Dense: dense, Table: 1, Records: records, Bytes: int64(len(b))}
		man := Manifest{Format: FormatModel, Generation: "parts-x", Tables: specs, Parts: []Part{p}, Dense: []DenseSpec{{ID: 1, Elements: 10}}}
		m := &Model{fs: files.NewDir(dir), dir: dir, Manifest: man, keyBudget: keyBudget}
		m.chain = []*Manifest{&m.Manifest}
		if len(b) < headerBytes+footerBytes {
			return // refused with the manifest
		}
		if err := os.WriteFile(filepath.Join(dir, "parts-x", "a.part"), b, 0o666); err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		var err error
		if dense {
			err = m.DenseBlocks(context.Background(), 1, func(first int64, v, _ []float32) error {
				if n++; first < 0 || first+int64(len(v)) > 10 {
					t.Fatalf("a block at %d of %d values", first, len(v))
				}
				return nil
			})
		} else {
			err = m.Rows(context.Background(), 1, 1, nil, func(keys []uint64, rows []float32) error {
				n += int64(len(keys))
				return nil
			})
		}
		if err == nil && n != records {
			t.Fatalf("%d records were read of %d", n, records)
		}
		if len(b) < headerBytes {
			return
		}
		// As a part of the generation that its header names, a delta's.
		h, err := decodeHeader(b)
		if err != nil || h.version == FormatModel {
			return
		}
		m.Format, m.Kind, m.Number, m.Generation = int(h.version), KindDelta, h.number, generationDir(h.number, h.id)
		m.WeightsOnly = h.flags&flagWeightsOnly != 0
		if h.flags&flagLZ4 != 0 {
			m.Compress = CompressLZ4
		}
		switch h.flags &^ (flagWeightsOnly | flagLZ4) {
		case flagFP16:
			m.Quantise = QuantFP16
		case flagInt8:
			m.Quantise = QuantInt8
		}
		if err := os.Rename(filepath.Join(dir, "parts-x"), filepath.Join(dir, m.Generation)); err != nil {
			t.Fatal(err)
		}
		rows := int64(0)
		err = m.Rows(context.Background(), 1, 1, nil, func(keys []uint64, _ []float32) error { rows += int64(len(keys)); return nil })
		if err == nil && !dense && rows > records {
			t.Fatalf("%d rows were read of %d records", rows, records)
		}
	})
}
