package ckpt

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/tiers/table"
)

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		text   string
		ranges []Range
	}{{"", nil}, {"0", []Range{{0, 1}}}, {"0-3,5,9-12", []Range{{0, 4}, {5, 6}, {9, 13}}}, {"4611686018427387903", []Range{{1<<62 - 1, 1 << 62}}}} {
		if got := spellRanges(c.ranges); got != c.text {
			t.Errorf("%v is %q, want %q", c.ranges, got, c.text)
		}
		if got, err := parseRanges(c.text); err != nil || !slices.Equal(got, c.ranges) {
			t.Errorf("%q is %v, %v, want %v", c.text, got, err, c.ranges)
		}
	}
	for _, bad := range []string{",", "1,", "-1", "2-1", "1-2-3", "x", "1 ", "9223372036854775807", "1--2"} {
		if got, err := parseRanges(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

// TestManyTables bounds the manifest of a thousand tables in 16 lanes with
// scattered slots: what they cover is said once.
func TestManyTables(t *testing.T) {
	const slots, lanes = 4096, 16
	m := Manifest{Format: FormatHistory, Generation: generationDir(1, math.MaxUint64), Slots: slots, Meta: []byte("null"),
		Lineage: Lineage{Number: 1, Kind: KindBase, Time: "2026-01-02T03:04:05Z"}}
	covers := make([][]Range, lanes)
	for s := range int64(slots) {
		l := mix(uint64(s)) % lanes
		covers[l] = append(covers[l], Range{s, s + 1})
	}
	for id := range uint32(1000) {
		m.Tables = append(m.Tables, table.Spec{Name: "t", ID: id, Dim: 8})
		for l := range lanes {
			m.Parts = append(m.Parts, Part{File: "t" + strings.Repeat("x", int(id)%7) + string(rune('a'+l)) + "-" + strings.Repeat("0", 3) + partSuffix,
				Table: id, Covers: covers[l], Records: 1, Bytes: 200, SHA256: strings.Repeat("0", 64)})
		}
	}
	for i := range m.Parts {
		m.Parts[i].File = "p" + strings.ToLower(strings.TrimLeft(generationDir(uint64(i+1), 0), partsPrefix)) + partSuffix
	}
	b, err := m.render()
	check(t, err)
	if len(b) > 8<<20 {
		t.Errorf("a manifest of %d bytes", len(b))
	}
	got, err := parseManifest("x", b)
	check(t, err)
	if !slices.Equal(got.Parts[17].Covers, covers[1]) || len(got.Layouts) != 0 {
		t.Errorf("part 17 covers %v", got.Parts[17].Covers)
	}
}

// TestDirectoryThatDisappears: a delta does not commit into a history that was
// removed under its writer.
func TestDirectoryThatDisappears(t *testing.T) {
	dir, w := filepath.Join(t.TempDir(), "history"), newTwin(1)
	h := testHistory(t, dir, 0)
	w.train(20)
	_, err := w.commit(h, NextOptions{}, 2)
	check(t, err)
	check(t, os.RemoveAll(dir))
	w.train(5)
	if _, err := w.commit(h, NextOptions{Delta: true}, 2); !errors.Is(err, ErrNoBase) {
		t.Errorf("a delta of nothing: %v", err)
	}
	w.train(5)
	_, err = w.commit(h, NextOptions{}, 2) // a base needs nothing
	check(t, err)
	check(t, h.Trouble())
	m, err := Open(dir)
	check(t, err)
	check(t, w.same(m, 1))
}

// TestSharedRanges: a small manifest cannot make its reader hold many ranges.
func TestSharedRanges(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "format2", manifestFile(1)))
	check(t, err)
	m, err := parseManifest("x", b)
	check(t, err)
	m.Parts[0].Covers = append(slices.Clone(m.Parts[0].Covers), m.Parts[0].Covers...)
	if b, err = m.render(); err == nil {
		_, err = parseManifest("x", b)
	}
	if err == nil || !strings.Contains(err.Error(), "two parts") || bytes.Contains(b, []byte(`"covers"`)) {
		t.Errorf("slots twice: %v", err)
	}
}
