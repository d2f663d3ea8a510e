//go:build cgo

package main

// #include "calls.h"
import "C"

import "psrt/sched/kv"

// countsView is one of a push's counts; NULL is none.
func countsView[T float32 | uint32](a address, n C.size_t, name string) ([]T, error) {
	if a == 0 {
		return nil, nil
	}
	return view[T](a, uint64(n), name)
}

//export psrtgo_push_counts
func psrtgo_push_counts(h, keys address, n C.size_t, grads, shows, clicks, slots, opt address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	e.refused = 0
	begin()
	r, err := rowsArgs(h, keys, n, grads, opt, true, "grads")
	if err != nil {
		return fail(e, err)
	}
	c := kv.Counts{}
	if c.Shows, err = countsView[float32](shows, n, "shows"); err != nil {
		return fail(e, err)
	}
	if c.Clicks, err = countsView[float32](clicks, n, "clicks"); err != nil {
		return fail(e, err)
	}
	if c.Slots, err = countsView[uint32](slots, n, "slots"); err != nil {
		return fail(e, err)
	}
	r.opt.Counts = &c
	return r.from(e, func(m []float32) error { return r.t.t.Push(r.keys, m, r.opt) })
}

//export psrtgo_table_life
func psrtgo_table_life(h address, day C.int, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	t, err := tableOf(h)
	switch {
	case err != nil:
		return fail(e, err)
	case day != 0:
		return does(e, t.of, func() error { return t.t.EndDay(0) })
	}
	return does(e, t.of, func() error { return t.t.Shrink(0) })
}
