package client

import (
	"testing"

	"psrt/sched/compress"
	"psrt/tiers/table"
)

// Late rows are not written over while their push is under way: here the server has
// them where they lie until the other worker's step is there.
func TestLateRowsUnderWay(t *testing.T) {
	const dim, first, second = 2, 100, 200
	spec := sumTable(1, dim)
	w := newWorld(t, worldConfig{transport: "shm", servers: 1, lanes: 1, workers: 2, tables: []table.Spec{spec}})
	c, other := w.openPacking(0, compress.Choice{Code: compress.Top, Share: .1}, 0), w.open(1)
	theirs := w.rows(other, spec)
	plan(t, theirs, nil)
	sets := []*Rows{w.rows(c, spec), w.rows(c, spec)}
	k, err := c.keptOf(sets[0].spec)
	must(t, err)
	c.SendAll(true)
	// keep has a row wait to be sent, as steps before this one would.
	keep := func(key uint64, g float32) {
		k.rows.Choose([]uint64{key, key + 1}, []float32{g, g, 9, 9}, 0, false, make([]bool, 2), make([]uint8, 2)) // the greater one would be sent
	}
	var pushes [2]Call
	keep(first, 3)
	plan(t, sets[0], []uint64{1})
	copy(sets[0].Grads(), []float32{1, 1})
	must(t, c.Push(sets[0], 0, true, &pushes[0]))
	if k.late.calls != 1 || sets[0].calls != 1 {
		t.Fatalf("%d requests are under way with the late rows, %d with the others: want 1 and 1", k.late.calls, sets[0].calls)
	}
	keep(second, 5)
	plan(t, sets[1], []uint64{2})
	copy(sets[1].Grads(), []float32{1, 1})
	done := make(chan error, 1)
	go func() { done <- c.Push(sets[1], 1, true, &pushes[1]) }()
	for step := range uint64(2) {
		push(t, other, theirs, step)
	}
	must(t, <-done)
	for i := range pushes {
		must(t, c.Wait(&pushes[i]))
	}
	if k.late.calls != 0 || sets[0].calls != 0 || sets[1].calls != 0 {
		t.Errorf("%d, %d and %d requests are under way, and all is answered", k.late.calls, sets[0].calls, sets[1].calls)
	}
	keys := []uint64{1, 2, first, second}
	index := plan(t, sets[0], keys)
	pull(t, c, sets[0], 2, 0)
	for i, want := range []float32{-1, -1, -3, -5} {
		if got := sets[0].Values()[dim*index[i]]; got != want {
			t.Errorf("key %d is %v, want %v", keys[i], got, want)
		}
	}
}

// What is kept goes out in steps of no more rows than one has had, where that is asked
// for: all of it, and each row once.
func TestKeptInSteps(t *testing.T) {
	const dim = 2
	spec := sumTable(1, dim)
	w := newWorld(t, worldConfig{transport: "shm", servers: 1, lanes: 2, workers: 1, tables: []table.Spec{spec}})
	c := w.openPacking(0, compress.Choice{Code: compress.Top, Share: .1}, 0)
	set := w.rows(c, spec)
	plan(t, set, []uint64{1, 2, 3, 4})
	for i := range set.Grads() {
		set.Grads()[i] = 1
	}
	push(t, c, set, 0)
	k, err := c.keptOf(set.spec)
	must(t, err)
	for key := uint64(10); key < 17; key++ {
		k.rows.Choose([]uint64{key, 1000 + key}, []float32{2, 2, 9, 9}, 0, false, make([]bool, 2), make([]uint8, 2)) // the greater one would be sent
	}
	kept := k.rows.Kept()
	steps := c.KeptSteps()
	if kept < 5 || steps != (kept+3)/4 {
		t.Fatalf("%d rows are kept, and go out in %d steps of 4", kept, steps)
	}
	c.SendAll(true)
	for i := range steps {
		plan(t, set, nil)
		before := k.rows.Kept()
		push(t, c, set, uint64(1+i))
		if sent := before - k.rows.Kept(); sent < 1 || sent > 4 {
			t.Errorf("step %d has %d rows, the largest had 4", i, sent)
		}
	}
	c.SendAll(false)
	if n := k.rows.Kept(); n != 0 {
		t.Errorf("%d rows are kept after all", n)
	}
	keys := []uint64{1, 2, 3, 4, 10, 16}
	index := plan(t, set, keys)
	pull(t, c, set, uint64(1+steps), 0)
	for i, want := range []float32{-1, -1, -1, -1, -2, -2} {
		if got := set.Values()[dim*index[i]]; got != want {
			t.Errorf("key %d is %v, want %v", keys[i], got, want)
		}
	}
}
