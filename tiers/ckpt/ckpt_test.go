package ckpt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"psrt/tiers/ckpt/files"
	"psrt/tiers/table"
)

// small is a model small enough to flip every bit of, and still with two
// tables, two servers, several blocks and a dense vector.
type small struct {
	rows  map[uint32]map[uint64][]float32
	dense []float32
	state []float32
}

var specs = []table.Spec{
	{Name: "emb", ID: 1, Dim: 3, Optimizer: table.Optimizer{Kind: table.AdaGrad}},
	{Name: "wide", ID: 7, Dim: 1, Optimizer: table.Optimizer{Kind: table.SGD}},
}

const slots = 8

func makeModel(version int, rows int) *small {
	m := &small{rows: map[uint32]map[uint64][]float32{}}
	keys := []uint64{0, 1, math.MaxUint64, 1 << 63}
	for i := len(keys); i < rows; i++ {
		keys = append(keys, uint64(i)*0x9e3779b97f4a7c15)
	}
	for _, s := range specs {
		m.rows[s.ID] = map[uint64][]float32{}
		for i, k := range keys[:rows] {
			row := make([]float32, s.RowFloats())
			for j := range row {
				row[j] = float32(version) + float32(i)/16 + float32(j)*100
			}
			m.rows[s.ID][k] = row
		}
	}
	for i := range 10 {
		m.dense = append(m.dense, float32(version*i))
		m.state = append(m.state, float32(i)/2)
	}
	return m
}

// server writes what one of two servers owns: even or odd slots.
func (m *small) server(w *Writer, id int) (parts []Part, err error) {
	var covers []Range
	for s := id; s < slots; s += 2 {
		covers = append(covers, Range{int64(s), int64(s + 1)})
	}
	for _, spec := range specs {
		r, err := w.Rows(fmt.Sprintf("t%d-s%d", spec.ID, id), spec, covers)
		if err != nil {
			return nil, err
		}
		defer r.Abort()
		keys := []uint64{}
		for k := range m.rows[spec.ID] {
			if int(k%slots)%2 == id {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			if err := r.Add(k, m.rows[spec.ID][k]); err != nil {
				return nil, err
			}
		}
		p, err := r.Close()
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	d, err := w.Dense(fmt.Sprintf("d-s%d", id), 5)
	if err != nil {
		return nil, err
	}
	defer d.Abort()
	for b := id * 5; b < id*5+5; b += 3 { // blocks of 3 and 2
		last := min(b+3, id*5+5)
		if err := d.Add(int64(b), m.dense[b:last], m.state[b:last]); err != nil {
			return nil, err
		}
	}
	p, err := d.Close()
	return append(parts, p), err
}

func (m *small) manifest(parts []Part, weightsOnly bool) Manifest {
	return Manifest{Meta: json.RawMessage(`{"model":"fm"}`), Digest: "abcd", WeightsOnly: weightsOnly, Slots: slots, Tables: specs,
		Dense: []DenseSpec{{Name: "mlp", ID: 5, Elements: 10}}, Parts: parts}
}

// save does the whole procedure on a disk.
func (m *small) save(d files.Disk, dir string, weightsOnly bool) error {
	in, err := begin(d, dir)
	if err != nil {
		return err
	}
	defer in.Abort()
	var mu sync.Mutex
	var parts []Part
	var errs [2]error
	var wg sync.WaitGroup
	for id := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			p, err := m.server(newWriter(d, in.Path(), weightsOnly), id)
			mu.Lock()
			defer mu.Unlock()
			parts, errs[id] = append(parts, p...), err
		}()
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	slices.SortFunc(parts, func(a, b Part) int { return strings.Compare(a.File, b.File) })
	return in.Commit(m.manifest(parts, weightsOnly))
}

// same reads a model whole and compares.
func (m *small) same(dir string) error {
	model, err := Open(dir)
	if err != nil {
		return err
	}
	for _, s := range specs {
		var mu sync.Mutex
		seen := map[uint64]bool{}
		err := model.Rows(context.Background(), s.ID, 3, nil, func(keys []uint64, rows []float32) error {
			mu.Lock()
			defer mu.Unlock()
			n := len(rows) / len(keys)
			for i, k := range keys {
				want := m.rows[s.ID][k]
				if model.WeightsOnly && want != nil {
					want = want[:s.Dim]
				}
				if got := rows[i*n : i*n+n]; seen[k] || !slices.Equal(got, want) {
					return fmt.Errorf("table %s: key %d (seen %v) is %v, want %v", s.Name, k, seen[k], got, want)
				}
				seen[k] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(seen) != len(m.rows[s.ID]) || model.Manifest.Rows(s.ID) != int64(len(seen)) {
			return fmt.Errorf("table %s: %d rows, want %d", s.Name, len(seen), len(m.rows[s.ID]))
		}
	}
	got, state := make([]float32, 10), make([]float32, 10)
	if err := model.DenseBlocks(context.Background(), 5, func(first int64, v, s []float32) error {
		copy(got[first:], v)
		copy(state[first:], s)
		return nil
	}); err != nil {
		return err
	}
	if !slices.Equal(got, m.dense) || (!model.WeightsOnly && !slices.Equal(state, m.state)) {
		return fmt.Errorf("dense vector is %v, %v", got, state)
	}
	var meta bytes.Buffer
	if err := json.Compact(&meta, model.Meta); err != nil || meta.String() != `{"model":"fm"}` || model.Digest != "abcd" {
		return fmt.Errorf("meta is %s, digest %s", model.Meta, model.Digest)
	}
	return model.Verify(context.Background(), 2)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSaveAndRead(t *testing.T) {
	for _, weightsOnly := range []bool{false, true} {
		for _, rows := range []int{0, 4, 30000} { // none, one block, many
			dir := filepath.Join(t.TempDir(), "new", "model")
			m := makeModel(1, rows)
			check(t, m.save(files.OS{}, dir, weightsOnly))
			check(t, m.same(dir))
		}
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o666))
	for version := 1; version <= 3; version++ {
		m := makeModel(version, 50)
		check(t, m.save(files.OS{}, dir, false))
		check(t, m.same(dir))
	}
	if got := listing(t, dir); !slices.Equal(got, []string{".lock", "MANIFEST.json", "notes.txt", "parts"}) {
		t.Errorf("the directory holds %v", got)
	}
}

// listing is the names in dir, random parts left out.
func listing(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		n := e.Name()
		for _, p := range []string{partsPrefix, incomingPrefix} {
			if strings.HasPrefix(n, p) {
				n = strings.TrimSuffix(p, "-")
			}
		}
		names = append(names, n)
	}
	return names
}

func TestLeftoversOfCrashes(t *testing.T) {
	dir := t.TempDir()
	m := makeModel(1, 50)
	check(t, m.save(files.OS{}, dir, false))
	// A writer that is alive keeps its directory; a crashed one's lock is free.
	live, err := Begin(dir)
	check(t, err)
	crashed, err := Begin(dir)
	check(t, err)
	_, err = makeModel(2, 50).server(NewWriter(crashed.Path(), false), 0)
	check(t, err)
	crashed.lock.Close()
	for _, n := range []string{"parts-0badcafe", ".incoming-00000000"} { // crashed between renames; before the lock
		check(t, os.Mkdir(filepath.Join(dir, n), 0o777))
	}
	for _, n := range []string{"parts-of-mine", "parts-12345678"} { // not ours
		check(t, os.Mkdir(filepath.Join(dir, n), 0o777))
		check(t, os.WriteFile(filepath.Join(dir, n, "photo.jpg"), nil, 0o666))
	}
	check(t, os.WriteFile(filepath.Join(dir, manifestTemp), []byte("{"), 0o666))
	check(t, m.same(dir)) // readers do not care
	in, err := Begin(dir)
	check(t, err)
	defer in.Abort()
	for name, want := range map[string]bool{live.Path(): true, crashed.Path(): false, in.Path(): true,
		filepath.Join(dir, "parts-0badcafe"): false, filepath.Join(dir, ".incoming-00000000"): false,
		filepath.Join(dir, "parts-of-mine"): true, filepath.Join(dir, "parts-12345678"): true,
		filepath.Join(dir, manifestTemp): false} {
		if exists(name) != want {
			t.Errorf("%s is there: %v, want %v", name, !want, want)
		}
	}
	check(t, m.same(dir))
	check(t, live.Abort())
	check(t, live.Abort())
	if exists(live.Path()) {
		t.Error("an aborted model left its directory")
	}
	if err := live.Commit(m.manifest(nil, false)); err == nil {
		t.Error("an aborted model was committed")
	}
}

func TestIncompleteModelsAreRefused(t *testing.T) {
	m := makeModel(1, 20)
	for _, c := range []struct {
		name, says string
		spoil      func(*Manifest)
	}{
		{"a server's parts are missing", "is in no part", func(m *Manifest) {
			m.Parts = slices.DeleteFunc(m.Parts, func(p Part) bool { return p.File == "t1-s1.part" })
		}},
		{"a slot twice", "is in two parts", func(m *Manifest) { m.Parts[2].Covers = []Range{{0, 8}} }},
		{"too few slots", "slot 8 of 9", func(m *Manifest) { m.Slots = 9 }},
		{"no slots", "0 slots", func(m *Manifest) { m.Slots = 0 }},
		{"dense block missing", "element 5", func(m *Manifest) { m.Parts[1].Covers = nil }},
		{"a strange table", "does not describe", func(m *Manifest) { m.Tables = m.Tables[:1] }},
		{"a part twice", "named twice", func(m *Manifest) { m.Parts = append(m.Parts, m.Parts[0]) }},
		{"a part elsewhere", "no file name of ours", func(m *Manifest) { m.Parts[0].File = "../x.part" }},
		{"a lost file", "no such file", func(m *Manifest) { m.Parts[0].File = "x.part" }},
		{"another size", "its writer reported", func(m *Manifest) { m.Parts[0].Bytes++ }},
		{"a bad spec", "dim 0", func(m *Manifest) { m.Tables = []table.Spec{{Name: "emb", ID: 1}, m.Tables[1]} }},
	} {
		dir := t.TempDir()
		in, err := Begin(dir)
		check(t, err)
		var parts []Part
		for id := range 2 {
			p, err := m.server(NewWriter(in.Path(), false), id)
			check(t, err)
			parts = append(parts, p...)
		}
		slices.SortFunc(parts, func(a, b Part) int { return strings.Compare(a.File, b.File) })
		man := m.manifest(parts, false)
		c.spoil(&man)
		if err := in.Commit(man); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.says)
		}
		if _, err := Open(dir); !errors.Is(err, ErrNoModel) {
			t.Errorf("%s: opening gives %v", c.name, err)
		}
		if got := listing(t, dir); !slices.Equal(got, []string{".lock"}) {
			t.Errorf("%s: %v is left", c.name, got)
		}
	}
}

func TestWriterMisuse(t *testing.T) {
	in, err := Begin(t.TempDir())
	check(t, err)
	defer in.Abort()
	w := NewWriter(in.Path(), false)
	for _, name := range []string{"", "../x", "A", "a b", "-a", strings.Repeat("a", 200)} {
		if _, err := w.Rows(name, specs[0], nil); err == nil {
			t.Errorf("part name %q is accepted", name)
		}
	}
	r, err := w.Rows("a", specs[0], nil)
	check(t, err)
	if _, err := w.Rows("a", specs[0], nil); err == nil {
		t.Error("two parts have one name")
	}
	if err := r.Add(1, make([]float32, 5)); err == nil || !strings.Contains(err.Error(), "5 floats, want 6") {
		t.Errorf("a short row: %v", err)
	}
	if _, err := r.Close(); err == nil {
		t.Error("a part that failed was closed as if whole")
	}
	if _, err := r.Close(); err == nil {
		t.Error("a part was closed twice")
	}
	d, err := w.Dense("b", 1)
	check(t, err)
	defer d.Abort()
	if err := d.Add(-1, []float32{1}, nil); err == nil {
		t.Error("a block before element 0 is accepted")
	}
}

func TestReadingStops(t *testing.T) {
	dir := t.TempDir()
	m := makeModel(1, 30000)
	check(t, m.save(files.OS{}, dir, false))
	model, err := Open(dir)
	check(t, err)
	stop := errors.New("enough")
	if err := model.Rows(context.Background(), 1, 2, nil, func([]uint64, []float32) error { return stop }); err != stop {
		t.Errorf("the callback's error came back as %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := model.Rows(ctx, 1, 2, nil, func([]uint64, []float32) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled read: %v", err)
	}
	if err := model.Verify(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled verification: %v", err)
	}
	n := 0 // slots 0, 2, ... are server 0's
	check(t, model.Rows(context.Background(), 1, 1, []Range{{2, 3}}, func(keys []uint64, _ []float32) error { n += len(keys); return nil }))
	if n == 0 || n == 30000 {
		t.Errorf("%d of 30000 rows were read for one slot", n)
	}
	if model.Rows(context.Background(), 9, 1, nil, nil) == nil || model.DenseBlocks(context.Background(), 9, nil) == nil {
		t.Error("a table that is not there was read")
	}
	check(t, makeModel(2, 10).save(files.OS{}, dir, false))
	if err := model.Rows(context.Background(), 1, 1, nil, func([]uint64, []float32) error { return nil }); err == nil || !strings.Contains(err.Error(), "was replaced while it was read") {
		t.Errorf("reading a replaced model: %v", err)
	}
}
