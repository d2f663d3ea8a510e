package ckpt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/tiers/ckpt/files"
)

// TestExchangedParts puts parts of equal size in the place of others: no reader uses them.
func TestExchangedParts(t *testing.T) {
	part := func(dir, name string) string {
		found, err := filepath.Glob(filepath.Join(dir, "parts-*", name))
		check(t, err)
		if len(found) != 1 {
			t.Fatalf("%s has %v", dir, found)
		}
		return found[0]
	}
	load := func(path string) []byte {
		b, err := os.ReadFile(path)
		check(t, err)
		return b
	}
	for name, c := range map[string]struct {
		// put gives what is written over t1-s0.part of model a.
		put func(a, b string) []byte
		old bool // the parts have no ids, as those of an earlier psrt
		// opens: only reading can find it.
		opens bool
	}{
		"another model's": {put: func(_, b string) []byte { return load(part(b, "t1-s0.part")) }},
		"another save of the same": {put: func(a, b string) []byte {
			check(t, makeModel(1, 6).save(files.OS{}, b, false))
			return load(part(b, "t1-s0.part"))
		}},
		"another of this model": {put: func(a, _ string) []byte { return load(part(a, "t1-s1.part")) }},
		"a copy that was broken off": {opens: true, put: func(a, b string) []byte {
			mine, other := load(part(a, "t1-s0.part")), load(part(b, "t1-s0.part"))
			return append(bytes.Clone(mine[:headerBytes]), other[headerBytes:]...)
		}},
		"another model's, old":       {old: true, opens: true, put: func(_, b string) []byte { return load(part(b, "t1-s0.part")) }},
		"another of this model, old": {old: true, opens: true, put: func(a, _ string) []byte { return load(part(a, "t1-s1.part")) }},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := t.TempDir(), t.TempDir()
			check(t, makeModel(1, 6).save(files.OS{}, a, false))
			check(t, makeModel(2, 6).save(files.OS{}, b, false))
			if c.old {
				age(t, a)
				age(t, b)
				check(t, makeModel(1, 6).same(a))
			}
			path := part(a, "t1-s0.part")
			now := c.put(a, b)
			if was := load(path); len(now) != len(was) || bytes.Equal(now, was) {
				t.Fatalf("%d bytes in place of %d: they would be told apart anyway", len(now), len(was))
			}
			check(t, os.WriteFile(path, now, 0o666))
			_, err := Open(a)
			if c.opens != (err == nil) {
				t.Errorf("Open: %v", err)
			}
			if c.opens {
				err = read(a)
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Errorf("a plain reader: %v", err)
			}
			if m, err := Open(a); c.opens {
				check(t, err)
				if err := m.Verify(background, 1); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
					t.Errorf("Verify: %v", err)
				}
			}
		})
	}
}

// TestMarked: parts of an earlier psrt cannot be told apart before they are read.
func TestMarked(t *testing.T) {
	dir := t.TempDir()
	check(t, makeModel(1, 6).save(files.OS{}, dir, false))
	for _, want := range []bool{true, false} {
		m, err := Open(dir)
		check(t, err)
		if m.Marked() != want {
			t.Errorf("marked: %v, want %v", m.Marked(), want)
		}
		age(t, dir)
	}
}

// age makes of a model of format 1 what a psrt wrote whose parts had no ids.
func age(t *testing.T, dir string) {
	path := filepath.Join(dir, ManifestName)
	b, err := os.ReadFile(path)
	check(t, err)
	m, err := parseManifest(path, b)
	check(t, err)
	for i := range m.Parts {
		p := &m.Parts[i]
		file := filepath.Join(dir, m.Generation, p.File)
		b, err := os.ReadFile(file)
		check(t, err)
		clear(b[44:60])
		binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
		check(t, os.WriteFile(file, b, 0o666))
		sum := sha256.Sum256(b)
		p.SHA256, p.ID, p.Blocks = hex.EncodeToString(sum[:]), "", ""
	}
	b, err = m.render()
	check(t, err)
	check(t, os.WriteFile(path, b, 0o666))
}
