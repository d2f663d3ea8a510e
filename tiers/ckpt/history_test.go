package ckpt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/tiers/ckpt/files"
	"psrt/tiers/table"
)

var background = context.Background()

// seed is PSRT_SEED or a fresh one, and printed.
func seed(t testing.TB) uint64 {
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv("PSRT_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("PSRT_SEED %q: %v", s, err)
		}
	}
	t.Logf("PSRT_SEED=%d", n)
	return n
}

// twin is a model in memory, written the plain way, and what has changed in it
// since the last commit.
type twin struct {
	rng          *rand.Rand
	rows         map[uint32]map[uint64][]float32
	dirty        map[uint32]map[uint64]bool // upserts and deletions
	dense, state []float32
	step         int64
	small        bool // weights are below 1
}

const denseElements = 10

func newTwin(seed uint64) *twin {
	w := &twin{rng: rand.New(rand.NewPCG(seed, 6)), rows: map[uint32]map[uint64][]float32{}, dense: make([]float32, denseElements), state: make([]float32, denseElements)}
	for _, s := range specs {
		w.rows[s.ID] = map[uint64][]float32{}
	}
	w.clean()
	return w
}

func (w *twin) clean() {
	w.dirty = map[uint32]map[uint64]bool{}
	for _, s := range specs {
		w.dirty[s.ID] = map[uint64]bool{}
	}
}

// train changes, adds and deletes some rows.
func (w *twin) train(n int) {
	w.step++
	for range n {
		s := specs[w.rng.IntN(len(specs))]
		key := w.rng.Uint64N(200) * 0x9e3779b97f4a7c15
		if w.rng.IntN(50) == 0 {
			key = math.MaxUint64
		}
		w.dirty[s.ID][key] = true
		if w.rng.IntN(4) == 0 {
			delete(w.rows[s.ID], key)
			continue
		}
		row := make([]float32, s.RowFloats())
		for i := range row {
			row[i] = math.Float32frombits(w.rng.Uint32() &^ (1 << 30)) // finite
			if w.small {
				row[i] = w.rng.Float32()
			}
		}
		w.rows[s.ID][key] = row
	}
	for i := range w.dense {
		w.dense[i], w.state[i] = w.rng.Float32(), float32(w.step)
	}
}

// copy is the model as it is now.
func (w *twin) copy() *twin {
	c := &twin{rows: map[uint32]map[uint64][]float32{}, dense: slices.Clone(w.dense), state: slices.Clone(w.state), step: w.step}
	for id, rows := range w.rows {
		c.rows[id] = maps.Clone(rows) // rows are replaced, never changed
	}
	return c
}

func (w *twin) digest() string {
	var sum table.Digest
	var h table.RowHasher
	for id, rows := range w.rows {
		for k, row := range rows {
			sum.Add(h.Hash(id, k, appendFloats(nil, row)))
		}
	}
	for i := range denseElements / 5 {
		sum.Add(h.Hash(math.MaxUint32, uint64(i), appendFloats(appendFloats(nil, w.dense[i*5:i*5+5]), w.state[i*5:i*5+5])))
	}
	return sum.String()
}

func slotOf(key uint64) int { return int(mix(key) % slots) }

// lane writes what one of some lanes owns: slots lane, lane+lanes, ...
func (w *twin) lane(wr *Writer, lane, lanes int, delta bool) (parts []Part, err error) {
	var covers []Range
	for s := lane; s < slots; s += lanes {
		covers = append(covers, Range{int64(s), int64(s + 1)})
	}
	for _, spec := range specs {
		r, err := wr.Rows(fmt.Sprintf("t%d-lane%d", spec.ID, lane), spec, covers)
		if err != nil {
			return nil, err
		}
		defer r.Abort()
		mine := func(k uint64) bool { return slotOf(k)%lanes == lane }
		holds := int64(0)
		for k, row := range w.rows[spec.ID] {
			if !mine(k) {
				continue
			}
			holds++
			if !delta || w.dirty[spec.ID][k] {
				if err := r.Add(k, row); err != nil {
					return nil, err
				}
			}
		}
		for k := range w.dirty[spec.ID] {
			if mine(k) && delta && w.rows[spec.ID][k] == nil {
				if err := r.Delete(k); err != nil {
					return nil, err
				}
			}
		}
		r.Holds(holds)
		p, err := r.Close()
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	d, err := wr.Dense(fmt.Sprintf("dense-lane%d", lane), 5)
	if err != nil {
		return nil, err
	}
	defer d.Abort()
	for b := 5 * lane; b < denseElements; b += 5 * lanes {
		if err := d.Add(int64(b), w.dense[b:b+5], w.state[b:b+5]); err != nil {
			return nil, err
		}
	}
	p, err := d.Close()
	return append(parts, p), err
}

// commit writes a generation by some lanes at once.
func (w *twin) commit(h *History, o NextOptions, lanes int) (*Manifest, error) {
	n, err := h.Begin(background, o)
	if err != nil {
		return nil, err
	}
	defer n.Abort()
	var mu sync.Mutex
	var parts []Part
	var failed error
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			p, err := w.lane(n.Writer(background), lane, lanes, o.Delta)
			mu.Lock()
			defer mu.Unlock()
			parts, failed = append(parts, p...), errors.Join(failed, err)
		})
	}
	wg.Wait()
	if failed != nil {
		return nil, failed
	}
	m, err := n.Commit(background, Manifest{Meta: []byte(`{"model":"fm"}`), Digest: w.digest(), Slots: slots, Tables: specs, Step: w.step,
		Position: fmt.Appendf(nil, `{"step":%d}`, w.step), Dense: []DenseSpec{{Name: "mlp", ID: 5, Elements: denseElements}}, Parts: parts})
	if err == nil {
		w.clean()
	}
	return m, err
}

// same reads a model by some workers and compares every bit.
func (w *twin) same(m *Model, workers int) error {
	for _, s := range specs {
		width := s.RowFloats()
		if m.WeightsOnly {
			width = s.Dim
		}
		var mu sync.Mutex
		got := map[uint64][]float32{}
		err := m.Rows(background, s.ID, workers, nil, func(keys []uint64, rows []float32) error {
			mu.Lock()
			defer mu.Unlock()
			for i, k := range keys {
				if got[k] != nil {
					return fmt.Errorf("table %s: key %d comes twice", s.Name, k)
				}
				got[k] = slices.Clone(rows[i*width : (i+1)*width])
			}
			return nil
		})
		if err != nil {
			return err
		}
		for k, row := range w.rows[s.ID] {
			if g := got[k]; g == nil || !sameBits(g, row[:width]) {
				return fmt.Errorf("table %s: key %d is %v, want %v", s.Name, k, g, row)
			}
		}
		if rows, exact := m.RowCount(s.ID); len(got) != len(w.rows[s.ID]) || rows != int64(len(got)) || !exact {
			return fmt.Errorf("table %s: %d rows were read and %d (exact %v) stated, want %d", s.Name, len(got), rows, exact, len(w.rows[s.ID]))
		}
	}
	dense, state := make([]float32, denseElements), make([]float32, denseElements)
	err := m.DenseBlocks(background, 5, func(first int64, v, s []float32) error {
		copy(dense[first:], v)
		copy(state[first:], s)
		return nil
	})
	if err == nil && (!slices.Equal(dense, w.dense) || !m.WeightsOnly && !slices.Equal(state, w.state)) {
		err = fmt.Errorf("the dense vector is %v, %v, want %v, %v", dense, state, w.dense, w.state)
	}
	if err == nil && (m.Step != w.step || !strings.Contains(string(m.Position), strconv.FormatInt(w.step, 10))) {
		err = fmt.Errorf("step %d, position %s, want %d", m.Step, m.Position, w.step)
	}
	return err
}

// oneRun is the run of tests that open a history several times.
const oneRun = "0123456789abcdef"

// testHistory is a history on a directory without waiting for its disk.
func testHistory(t *testing.T, dir string, keep int) *History {
	t.Helper()
	h, err := openHistory(background, files.OnDisk(dir, quick{}), dir, HistoryOptions{Keep: keep, Run: oneRun})
	check(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

func wellVerified(t *testing.T, location string) *Report {
	t.Helper()
	r, err := VerifyAll(background, location, 2)
	check(t, err)
	for _, p := range r.Problems {
		t.Error(p)
	}
	return r
}

// TestHistory holds random histories to models in memory: every generation,
// read whole, by any number of workers, and with hardly any memory for ids.
func TestHistory(t *testing.T) {
	first := seed(t)
	for round := range uint64(4) {
		dir := t.TempDir()
		w := newTwin(first + round)
		h := testHistory(t, dir, 0)
		was := map[uint64]*twin{}
		for i := range 12 {
			w.train(w.rng.IntN(60))
			m, err := w.commit(h, NextOptions{Delta: i > 0 && w.rng.IntN(5) > 0}, 1+w.rng.IntN(4))
			check(t, err)
			check(t, h.Trouble())
			was[m.Number] = w.copy()
			if w.rng.IntN(4) == 0 {
				check(t, h.Close())
				h = testHistory(t, dir, 0)
			}
		}
		for n, then := range was {
			m, err := OpenAt(background, dir, n)
			check(t, err)
			check(t, then.same(m, 1+int(n)%3))
			m.keyBudget = 1500 // a few ids: many passes
			check(t, then.same(m, 1))
		}
		if r := wellVerified(t, dir); !slices.Contains(r.Digests, h.last) {
			t.Errorf("the digest of generation %d was not computed: %v", h.last, r.Digests)
		}
		merged, err := h.Merge(background, 0, 2)
		check(t, err)
		m, err := Open(dir)
		check(t, err)
		if check(t, w.same(m, 2)); merged.Kind != KindBase || len(m.Chain()) != 1 || m.Number != merged.Number || merged.Merged == nil {
			t.Errorf("merging gave %+v, a chain of %d", merged.Lineage, len(m.Chain()))
		}
		w.train(5)
		_, err = w.commit(h, NextOptions{Delta: true}, 3) // goes on from the merged base
		check(t, err)
		m, err = Open(dir)
		check(t, err)
		check(t, w.same(m, 2))
		wellVerified(t, dir)
	}
}

// TestSlotsWanted loads a chain, whose layout changes on the way, on any number
// of servers: each takes its own slots.
func TestSlotsWanted(t *testing.T) {
	dir, w := t.TempDir(), newTwin(seed(t))
	h := testHistory(t, dir, 0)
	for i := range 6 {
		w.train(100)
		_, err := w.commit(h, NextOptions{Delta: i > 0}, 1+i%3)
		check(t, err)
	}
	m, err := Open(dir)
	check(t, err)
	for servers := 1; servers <= 5; servers++ {
		for _, s := range specs {
			n := 0
			for server := range servers {
				var want []Range
				for slot := server; slot < slots; slot += servers {
					want = append(want, Range{int64(slot), int64(slot + 1)})
				}
				err := m.Rows(background, s.ID, 1, want, func(keys []uint64, rows []float32) error {
					for i, k := range keys {
						if slotOf(k)%servers != server {
							continue
						}
						n++
						if got := rows[i*s.RowFloats() : (i+1)*s.RowFloats()]; !sameBits(got, w.rows[s.ID][k]) {
							return fmt.Errorf("key %d is %v, want %v", k, got, w.rows[s.ID][k])
						}
					}
					return nil
				})
				check(t, err)
			}
			if n != len(w.rows[s.ID]) {
				t.Errorf("%d servers loaded %d rows of table %s, want %d", servers, n, s.Name, len(w.rows[s.ID]))
			}
		}
	}
}

// TestRetention keeps whole chains and nothing else, whatever they descend from.
func TestRetention(t *testing.T) {
	dir, w := t.TempDir(), newTwin(1)
	h := testHistory(t, dir, 2)
	commit := func(delta bool) *Manifest {
		w.train(10)
		m, err := w.commit(h, NextOptions{Delta: delta}, 2)
		check(t, err)
		check(t, h.Trouble())
		return m
	}
	numbers := func() (n []uint64) {
		list, err := List(background, dir)
		check(t, err)
		for _, e := range list {
			check(t, e.Err)
			n = append(n, e.Number)
		}
		return n
	}
	var at5 *twin
	for _, c := range []struct {
		delta bool
		want  []uint64
	}{{false, []uint64{1}}, {true, []uint64{1, 2}}, {false, []uint64{1, 2, 3}}, {true, []uint64{1, 2, 3, 4}},
		{false, []uint64{3, 4, 5}}, {false, []uint64{5, 6}}, {true, []uint64{5, 6, 7}}} {
		if m := commit(c.delta); !slices.Equal(numbers(), c.want) {
			t.Fatalf("kept are %v, want %v", numbers(), c.want)
		} else if m.Number == 5 {
			at5 = w.copy()
		}
	}
	// Going on from the older chain makes it the newer one.
	check(t, h.Resume(background, 5))
	if h.Head().Number != 5 {
		t.Fatalf("resumed at %d", h.Head().Number)
	}
	w.rows = at5.rows
	n, err := h.Begin(t.Context(), NextOptions{Delta: true})
	check(t, err)
	check(t, n.Abort())
	check(t, n.Abort())
	if m := commit(true); m.Number != 9 || m.Parent.Number != 5 {
		t.Errorf("the delta after resuming is %+v", m.Lineage)
	}
	if commit(false); !slices.Equal(numbers(), []uint64{5, 9, 10}) {
		t.Errorf("kept are %v", numbers())
	}
	dirs, err := filepath.Glob(filepath.Join(dir, partsPrefix+"*"))
	check(t, err)
	if len(dirs) != 3 {
		t.Errorf("parts of %d generations are left: %v", len(dirs), dirs)
	}
	wellVerified(t, dir)
}

func TestSecondWriterIsRefused(t *testing.T) {
	dir := t.TempDir()
	h, err := OpenHistory(background, dir, HistoryOptions{})
	check(t, err)
	_, err = OpenHistory(background, dir, HistoryOptions{})
	var held *LockedError
	if !errors.As(err, &held) || held.PID != os.Getpid() || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("a second writer: %v", err)
	}
	check(t, h.Close())
	check(t, h.Close())
	h, err = OpenHistory(background, dir, HistoryOptions{})
	check(t, err)
	check(t, h.Close())
	if _, err := h.Begin(t.Context(), NextOptions{}); err == nil {
		t.Error("a closed history begins a generation")
	}
}

func TestHistoryMisuse(t *testing.T) {
	dir, w := t.TempDir(), newTwin(1)
	h := testHistory(t, dir, 0)
	if _, err := h.Begin(t.Context(), NextOptions{Delta: true}); !errors.Is(err, ErrNoBase) {
		t.Errorf("a delta of nothing: %v", err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNoModel) {
		t.Errorf("an empty history: %v", err)
	}
	w.train(20)
	base, err := w.commit(h, NextOptions{}, 2)
	check(t, err)
	n, err := h.Begin(t.Context(), NextOptions{})
	check(t, err)
	if _, err := h.Begin(t.Context(), NextOptions{}); err == nil || !strings.Contains(err.Error(), "under way") {
		t.Errorf("two generations at once: %v", err)
	}
	r, err := n.Writer(background).Rows("x", specs[0], nil)
	check(t, err)
	if err := r.Delete(1); err == nil || !strings.Contains(err.Error(), "in a base") {
		t.Errorf("a deletion in a base: %v", err)
	}
	r.Abort()
	check(t, n.Abort())
	for _, c := range []struct {
		name, says string
		spoil      func(*Manifest)
	}{
		{"a server's parts are missing", "is in no part", func(m *Manifest) { m.Parts = m.Parts[1:] }},
		{"another key space", "has 8", func(m *Manifest) {
			m.Slots = 4
			for i := range m.Parts {
				if !m.Parts[i].Dense {
					m.Parts[i].Covers = m.Parts[i].Covers[:2]
				}
			}
		}},
		{"another row", "cannot follow", func(m *Manifest) {
			m.Tables = slices.Clone(m.Tables)
			m.Tables[1].Optimizer.Kind = table.FTRL
		}},
		{"another size", "its writer reported", func(m *Manifest) { m.Parts[0].Bytes++ }},
		{"a lost file", "no such file", func(m *Manifest) { m.Parts[0].File = "x.part" }},
	} {
		n, err := h.Begin(t.Context(), NextOptions{Delta: true})
		check(t, err)
		wr, err := WriterFor(background, n.Ticket())
		check(t, err)
		var parts []Part
		for lane := range 2 {
			p, err := w.lane(wr, lane, 2, true)
			check(t, err)
			parts = append(parts, p...)
		}
		m := Manifest{Slots: slots, Tables: specs, Dense: []DenseSpec{{Name: "mlp", ID: 5, Elements: denseElements}}, Parts: parts}
		c.spoil(&m)
		if _, err := n.Commit(background, m); err == nil || !strings.Contains(err.Error(), c.says) && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.says)
		}
		if _, err := n.Commit(background, m); err == nil {
			t.Errorf("%s: committed the second time", c.name)
		}
		if h.Head().Number != base.Number {
			t.Errorf("%s: head is %d", c.name, h.Head().Number)
		}
	}
	if got := listing(t, dir); !slices.Equal(got, []string{".lock", "HEAD", manifestFile(1), "parts"}) {
		t.Errorf("the directory holds %v", got)
	}
	for _, bad := range []string{"", "{}", `{"location":"x","as":{"format":9}}`, "x"} {
		if _, err := WriterFor(background, bad); err == nil {
			t.Errorf("ticket %q is accepted", bad)
		}
	}
	model := t.TempDir()
	check(t, makeModel(1, 3).save(quick{}, model, false))
	if _, err := OpenHistory(background, model, HistoryOptions{}); err == nil || !strings.Contains(err.Error(), "choose another directory") {
		t.Errorf("a history in a model's directory: %v", err)
	}
	if _, err := Begin(dir); err == nil || !strings.Contains(err.Error(), "choose another directory") {
		t.Errorf("a model in a history's directory: %v", err)
	}
}

// TestBeside: what lies beside the parts of a generation is there with it, is checked, and is
// no part of what follows.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	h := testHistory(t, dir, 0)
	w := newTwin(seed(t))
	n, err := h.Begin(t.Context(), NextOptions{})
	check(t, err)
	wr, err := WriterFor(background, n.Ticket())
	check(t, err)
	parts, err := w.lane(wr, 0, 1, false)
	check(t, err)
	of := func(beside ...Beside) Manifest {
		return Manifest{Slots: slots, Tables: specs, Dense: []DenseSpec{{Name: "mlp", ID: 5, Elements: denseElements}}, Parts: parts, Beside: beside}
	}
	empty, err := WriteBeside(background, n.Ticket(), "empty", nil)
	check(t, err)
	b, err := WriteBeside(background, n.Ticket(), "mine-0", []byte("what I know"))
	check(t, err)
	for _, name := range []string{"", "../x", "A", "a.b"} {
		if _, err := WriteBeside(background, n.Ticket(), name, nil); err == nil {
			t.Errorf("the name %q is taken", name)
		}
	}
	if _, err := WriteBeside(background, "{}", "x", nil); err == nil {
		t.Error("a ticket for nothing is taken")
	}
	for _, bad := range []Manifest{of(b, b), of(Beside{File: parts[0].File, Bytes: 1, SHA256: b.SHA256}), of(Beside{File: "x.txt", SHA256: b.SHA256}), of(Beside{File: "x.part", Bytes: -1, SHA256: b.SHA256})} {
		bad.Format, bad.Generation, bad.Lineage = n.as.Format, n.as.Generation, n.as.Lineage
		if err := bad.validate(); err == nil {
			t.Errorf("%+v is taken", bad.Beside)
		}
	}
	_, err = n.Commit(background, of(b, empty))
	check(t, err)
	m, err := OpenAt(background, dir, 1)
	check(t, err)
	for _, x := range []struct {
		of   Beside
		text string
	}{{m.Beside[0], "what I know"}, {m.Beside[1], ""}} {
		if text, err := m.ReadBeside(background, x.of); err != nil || string(text) != x.text {
			t.Errorf("%s has %q, %v", x.of.File, text, err)
		}
	}
	check(t, m.Verify(background, 1))
	sum, err := h.Merge(background, 1, 1)
	check(t, err)
	sumOf, err := OpenAt(background, dir, sum.Number)
	check(t, err)
	if !slices.Equal(sumOf.Beside, m.Beside) || sumOf.Generation == m.Generation {
		t.Errorf("beside what was merged there is %+v, was %+v", sumOf.Beside, m.Beside)
	}
	wellVerified(t, dir)
	check(t, h.Close())
	h = testHistory(t, dir, 0) // which takes it for nothing that a crash left
	for _, text := range []string{"what I knew", "what I know, and more", ""} {
		check(t, os.WriteFile(filepath.Join(dir, m.Generation, b.File), []byte(text), 0o600))
		if _, err := m.ReadBeside(background, b); err == nil {
			t.Errorf("%q is taken for what was written", text)
		}
		if r, err := VerifyAll(background, dir, 1); err != nil || len(r.Problems) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if _, err := h.Merge(background, 1, 1); err == nil {
		t.Error("a file that is damaged is left out of what is merged, or copied")
	}
	if err := checkBeside("x", MaxBeside+1); err == nil || !strings.Contains(err.Error(), "at most 1073741824; psrt train keeps less") {
		t.Errorf("a file that is too large: %v", err)
	}
	n, err = h.Begin(t.Context(), NextOptions{})
	check(t, err)
	wr, err = WriterFor(background, n.Ticket())
	check(t, err)
	parts, err = w.lane(wr, 0, 1, false)
	check(t, err)
	if _, err := n.Commit(background, of(b)); err == nil {
		t.Error("a file that this generation does not have is taken")
	}
}
