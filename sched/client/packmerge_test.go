package client

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"psrt/sched/compress"
	"psrt/sched/densemap"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// merging is a worker that merges so many steps over a server that answers no push of a
// step before the other worker's is there, as one does that is behind a slow link.
type merging struct {
	t      *testing.T
	c      *Client
	sets   []*Rows
	calls  []Call
	other  *Client
	theirs *Rows
	step   uint64
}

const mergeDim = 2

func newMerging(t *testing.T, steps, sets int) *merging {
	spec := sumTable(1, mergeDim)
	w := newWorld(t, worldConfig{transport: "shm", servers: 1, lanes: 1, workers: 2, tables: []table.Spec{spec}})
	m := &merging{t: t, c: w.openPacking(0, compress.Choice{Merge: steps}, 0), other: w.open(1), calls: make([]Call, sets)}
	for range sets {
		m.sets = append(m.sets, w.rows(m.c, spec))
	}
	m.theirs = w.rows(m.other, spec)
	plan(t, m.theirs, nil)
	return m
}

// push gives the gradient g to each of the keys, and waits for nothing.
func (m *merging) push(g float32, keys ...uint64) {
	m.t.Helper()
	s := m.sets[m.step]
	plan(m.t, s, keys)
	for i := range s.Grads()[:len(keys)*mergeDim] {
		s.Grads()[i] = g
	}
	must(m.t, m.c.Push(s, m.step, true, &m.calls[m.step]))
	m.step++
}

// open has the server answer what was pushed.
func (m *merging) open() {
	m.t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		for step := range m.step {
			err = errors.Join(err, m.c.Wait(&m.calls[step]))
		}
		done <- err
	}()
	for step := range m.step {
		push(m.t, m.other, m.theirs, step)
	}
	must(m.t, <-done)
}

// While the server does not answer, steps' rows are added up and sent once, and the sums
// are what they would be.
func TestMergeWhileWaiting(t *testing.T) {
	m := newMerging(t, 2, 4)
	m.push(1, 1, 2, 3)
	m.push(10, 2, 3, 4)
	m.push(100, 3)
	m.push(1000, 3, 4)
	if k := m.c.press.kept[1]; k.rows.Kept() != 0 {
		t.Errorf("%d rows are kept behind a push", k.rows.Kept())
	}
	m.open()
	s := m.c.Compressed()
	if want := (MergeStats{Steps: 2, Merged: 2, Rows: 3, Waiting: 3}); *s.Merge != want || s.LateRows != 1 {
		t.Errorf("%+v and %d late rows, want %+v and 1", *s.Merge, s.LateRows, want)
	}
	keys := []uint64{1, 2, 3, 4}
	index := plan(t, m.sets[0], keys)
	pull(t, m.c, m.sets[0], m.step, 0)
	for i, want := range []float32{-1, -11, -1111, -1010} {
		if got := m.sets[0].Values()[mergeDim*index[i]]; got != want {
			t.Errorf("key %d is %v, want %v", keys[i], got, want)
		}
	}
}

// A gradient that is not finite is refused with the push that it went with, and no other.
func TestMergeRefusesNaN(t *testing.T) {
	m := newMerging(t, 2, 2)
	m.push(float32(math.NaN()), 7)
	m.push(1, 7, 8)
	m.open()
	if refused := []int{m.calls[0].Refused, m.calls[1].Refused}; !slices.Equal(refused, []int{0, 1}) {
		t.Errorf("%d rows were refused, want 0 and 1", refused)
	}
	plan(t, m.sets[0], []uint64{8})
	pull(t, m.c, m.sets[0], m.step, 0)
	if got := m.sets[0].Values()[0]; got != -1 {
		t.Errorf("the row beside it is %v, want -1", got)
	}
}

// resumable is a job of one worker that ends with what it has not sent.
type resumable struct {
	*Client
	rows  *Rows
	dense *Dense
}

var resumableTables = []table.Spec{sumTable(1, 1)}

func newResumable(t *testing.T, choice compress.Choice) *resumable {
	const dense = 4
	w := newWorld(t, worldConfig{transport: "shm", servers: 1, lanes: 2, workers: 1, staleness: server.Async, tables: resumableTables, dense: dense})
	j := &resumable{Client: w.openPacking(0, choice, 0)}
	j.rows = w.rows(j.Client, resumableTables[0])
	var err error
	j.dense, err = j.NewDense(dense, 1)
	must(t, err)
	t.Cleanup(j.dense.Close)
	j.dense.Cut([]densemap.Block{{Len: dense, Rule: "grad"}})
	return j
}

// step pushes the gradients of keys and of the dense vector.
func (j *resumable) step(t *testing.T, clock uint64, grads map[uint64]float32, dense ...float32) {
	keys := slices.Sorted(maps.Keys(grads))
	for i, at := range plan(t, j.rows, keys) {
		j.rows.Grads()[at] = grads[keys[i]]
	}
	copy(j.dense.Grads(), dense)
	var pushed Call
	must(t, j.PushDense(j.dense, clock, true, &pushed))
	must(t, j.Wait(&pushed))
	push(t, j.Client, j.rows, clock)
}

// Who merges steps and goes on from a checkpoint sends what that one has at once: it is as
// old as the bound allows. Of one that topk was writing that is dense values, too.
func TestMergeGoesOnWithUnsent(t *testing.T) {
	for _, before := range []compress.Choice{{Merge: 3}, {Code: compress.Top, Share: .25}} {
		a := newResumable(t, before)
		a.step(t, 0, map[uint64]float32{1: 1, 2: 2, 3: 3, 4: 4}, 8, 1, 2, 4)
		b := newResumable(t, compress.Choice{Merge: 3})
		must(t, b.TakeUnsent(a.Unsent(), resumableTables, 4))
		b.step(t, 0, map[uint64]float32{1: 10, 9: 10}, 0, 0, 0, 0)
		if n := b.Compressed().KeptRows; n != 0 {
			t.Errorf("%+v: %d rows are kept for longer", before, n)
		}
		var pulled Call
		must(t, b.PullDense(b.dense, 1, 0, &pulled))
		must(t, b.Wait(&pulled))
		keys, want, dense := []uint64{1, 2, 3, 4, 9}, []float32{-11, -2, -3, -4, -10}, []float32{0, 0, 0, 0}
		if before.Code == compress.Top { // the greatest were sent
			want[3], dense = 0, []float32{0, -1, -2, -4}
		}
		if got := b.dense.Values(); !slices.Equal(got, dense) {
			t.Errorf("%+v: the dense vector is %v, want %v", before, got, dense)
		}
		index := plan(t, b.rows, keys)
		pull(t, b.Client, b.rows, 1, 0)
		for i, at := range index {
			if got := b.rows.Values()[at]; got != want[i] {
				t.Errorf("%+v: key %d is %v, want %v", before, keys[i], got, want[i])
			}
		}
	}
}
