//go:build cgo

package main

// #include "calls.h"
import "C"

import "psrt/sched/kv"

// rowsCall is a pull's or push's arguments after the checks.
type rowsCall struct {
	t    *tableHandle
	keys []uint64
	at   floatsAt
	opt  kv.Options
	how  C.psrt_seen_options
}

// rowsArgs checks what all calls with rows have. keys may be left out.
func rowsArgs(h, keys address, n C.size_t, matrix, opt address, withKeys bool, name string) (r rowsCall, err error) {
	if r.t, err = tableOf(h); err != nil {
		return r, err
	}
	if r.how, err = options(opt); err != nil {
		return r, err
	}
	if n > kv.MaxKeys {
		return r, invalid("%d keys in one call, at most %d", uint64(n), kv.MaxKeys)
	}
	if withKeys {
		if r.keys, err = view[uint64](keys, uint64(n), "keys"); err != nil {
			return r, err
		}
	}
	if r.at, err = floatsOf(r.t.of, matrix, uint64(n)*r.t.dim, &r.how, name); err != nil {
		return r, err
	}
	if withKeys && overlap(keys, uint64(n)*8, matrix, uint64(n)*r.t.dim*4) {
		return r, invalid("keys and %s overlap", name)
	}
	r.opt = kv.Options{Timeout: micros(r.how.timeout_us), ReadOnly: r.how.flags&C.PSRT_READ_ONLY != 0, AnyClock: r.how.flags&C.PSRT_ANY_CLOCK != 0,
		CheckFinite: r.how.flags&C.PSRT_CHECK_FINITE != 0}
	return r, nil
}

//export psrtgo_pull
func psrtgo_pull(h, keys address, n C.size_t, values, ticket, opt address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	r, err := rowsArgs(h, keys, n, values, opt, true, "values")
	if err != nil {
		return fail(e, err)
	}
	if ticket == 0 {
		return r.into(e, func(m []float32) error { return r.t.t.Pull(r.keys, m, r.opt) })
	}
	at, err := place[kv.Ticket](ticket, "ticket", true)
	if err != nil {
		return fail(e, err)
	}
	return r.intoTicket(e, at)
}

//export psrtgo_push
func psrtgo_push(h, keys address, n C.size_t, grads, opt address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	e.refused = 0
	begin()
	r, err := rowsArgs(h, keys, n, grads, opt, true, "grads")
	if err != nil {
		return fail(e, err)
	}
	return r.from(e, func(m []float32) error { return r.t.t.Push(r.keys, m, r.opt) })
}

//export psrtgo_push_ticket
func psrtgo_push_ticket(h address, ticket C.uint64_t, n C.size_t, grads, opt address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	e.refused = 0
	begin()
	r, err := rowsArgs(h, 0, n, grads, opt, false, "grads")
	if err != nil {
		return fail(e, err)
	}
	return r.from(e, func(m []float32) error { return r.t.t.PushTicket(kv.Ticket(ticket), int(n), m, r.opt) })
}

//export psrtgo_plan
func psrtgo_plan(h, keys address, n C.size_t, unique, index, count address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	t, err := tableOf(h)
	if err != nil {
		return fail(e, err)
	}
	if n > kv.MaxKeys {
		return fail(e, invalid("%d keys in one call, at most %d", uint64(n), kv.MaxKeys))
	}
	k, err := view[uint64](keys, uint64(n), "keys")
	if err != nil {
		return fail(e, err)
	}
	u, err := view[uint64](unique, uint64(n), "unique")
	if err != nil {
		return fail(e, err)
	}
	at, err := place[C.size_t](count, "n_unique", true)
	if err != nil {
		return fail(e, err)
	}
	var idx []int32
	if index != 0 {
		if idx, err = view[int32](index, uint64(n), "index"); err != nil {
			return fail(e, err)
		}
		if overlap(index, uint64(n)*4, unique, uint64(n)*8) || overlap(index, uint64(n)*4, keys, uint64(n)*8) {
			return fail(e, invalid("index overlaps keys or unique"))
		}
	}
	got, err := t.t.Plan(k, u, idx)
	if err != nil {
		return fail(e, err)
	}
	*at = C.size_t(got)
	return C.PSRT_OK
}

//export psrtgo_prefetch
func psrtgo_prefetch(h, keys address, n C.size_t, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	t, err := tableOf(h)
	if err != nil {
		return fail(e, err)
	}
	if n > kv.MaxKeys {
		return fail(e, invalid("%d keys in one call, at most %d", uint64(n), kv.MaxKeys))
	}
	k, err := view[uint64](keys, uint64(n), "keys")
	if err == nil {
		err = t.t.Prefetch(k, 0)
	}
	return fail(e, err)
}

//export psrtgo_dense_size
func psrtgo_dense_size(h, out address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	at, err := place[C.size_t](out, "n", true)
	if err != nil {
		return fail(e, err)
	}
	*at = C.size_t(c.c.DenseLen())
	return C.PSRT_OK
}

//export psrtgo_dense_range
func psrtgo_dense_range(h, name, first, n address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	from, err := place[C.size_t](first, "first", true)
	if err != nil {
		return fail(e, err)
	}
	count, err := place[C.size_t](n, "n", true)
	if err != nil {
		return fail(e, err)
	}
	s, err := text(name, maxName, "name")
	if err != nil {
		return fail(e, err)
	}
	f, l, err := c.c.DensePart(s)
	if err != nil {
		return fail(e, err)
	}
	*from, *count = C.size_t(f), C.size_t(l)
	return C.PSRT_OK
}

// denseArgs checks what all calls with the dense vector have.
func denseArgs(h, vector address, n C.size_t, opt address) (c *clientHandle, v floatsAt, o kv.Options, how C.psrt_seen_options, err error) {
	if c, err = clientOf(h); err != nil {
		return
	}
	if how, err = options(opt); err != nil {
		return
	}
	if want := c.c.DenseLen(); uint64(n) != uint64(want) || want == 0 {
		err = &kv.Error{Code: kv.Mismatch, Err: invalid("the dense vector has %d floats, not %d", want, uint64(n))}
		return
	}
	o = kv.Options{Timeout: micros(how.timeout_us), AnyClock: how.flags&C.PSRT_ANY_CLOCK != 0, CheckFinite: how.flags&C.PSRT_CHECK_FINITE != 0}
	v, err = floatsOf(c, vector, uint64(n), &how, "the vector")
	return
}

//export psrtgo_dense
func psrtgo_dense(h, vector address, n C.size_t, push C.int, opt address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	if push != 0 {
		e.refused = 0
	}
	begin()
	c, v, o, _, err := denseArgs(h, vector, n, opt)
	if err != nil {
		return fail(e, err)
	}
	if push != 0 {
		o.Refused = new(uint64)
		return v.sliced(e, c, &o, func() error { return v.from(o, func(m []float32) error { return c.c.PushDense(m, o) }) })
	}
	return v.sliced(e, c, &o, func() error { return v.into(o, func(m []float32) error { return c.c.PullDense(m, o) }) })
}
