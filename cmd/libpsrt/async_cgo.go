//go:build cgo

package main

// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"psrt/sched/kv"
)

// telling makes what is to be done when a request ends, nil if nothing.
func telling(o *C.psrt_seen_options) (func(error), error) {
	if o.use_eventfd != 0 {
		if _, err := unix.FcntlInt(uintptr(o.eventfd), unix.F_GETFD, 0); err != nil {
			return nil, invalid("options.eventfd %d is not open: %w", int(o.eventfd), err)
		}
	}
	if o.use_eventfd == 0 && o.callback == 0 {
		return nil, nil
	}
	call, arg, fd, rings := o.callback, o.arg, o.eventfd, o.use_eventfd != 0
	return func(err error) {
		if rings {
			C.psrt_ring(fd)
		}
		if call == 0 {
			return
		}
		message := ""
		status := C.int(C.PSRT_OK)
		if err != nil {
			message, status = err.Error(), statusOf(err)
		}
		m := C.CString(message)
		C.psrt_run_callback(call, arg, status, m)
		C.free(unsafe.Pointer(m))
	}, nil
}

func statusOf(err error) C.int { return status(err) }

// launch begins a request and gives out its handle. Where nobody wants one the
// callback tells how it ends.
func launch(c *clientHandle, o *C.psrt_seen_options, out address, e *C.psrt_text, start func(notify func(error)) (pending, error)) C.int {
	if out == 0 && o.callback == 0 {
		return fail(e, invalid("req is NULL and there is no callback: nobody would learn how the request ends"))
	}
	at, err := place[C.uint64_t](out, "req", false)
	if err != nil {
		return fail(e, err)
	}
	notify, err := telling(o)
	if err != nil {
		return fail(e, err)
	}
	if at != nil {
		*at = 0 // a fault shows before anything has begun
	}
	r, err := start(notify)
	if err != nil {
		return fail(e, err)
	}
	if at == nil {
		return C.PSRT_OK
	}
	h, err := all.put(kindRequest, r, c)
	if err != nil {
		<-r.Done()
		return fail(e, &kv.Error{Code: kv.Busy, Err: err})
	}
	*at = C.uint64_t(h)
	return C.PSRT_OK
}

//export psrtgo_pull_async
func psrtgo_pull_async(h, keys address, n C.size_t, values, ticket, opt, req address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	r, err := rowsArgs(h, keys, n, values, opt, true, "values")
	if err != nil {
		return fail(e, err)
	}
	at, err := place[kv.Ticket](ticket, "ticket", false)
	if err != nil {
		return fail(e, err)
	}
	return launch(r.t.of, &r.how, req, e, func(notify func(error)) (pending, error) {
		return r.at.intoAsync(r.opt, notify, func(m []float32, notify func(error)) (*kv.Request, error) {
			return r.t.t.PullAsync(r.keys, m, at, r.opt, notify)
		})
	})
}

//export psrtgo_push_async
func psrtgo_push_async(h, keys address, n C.size_t, grads, opt, req address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	r, err := rowsArgs(h, keys, n, grads, opt, true, "grads")
	if err != nil {
		return fail(e, err)
	}
	refused := new(uint64)
	r.opt.Refused = refused
	return launch(r.t.of, &r.how, req, e, func(notify func(error)) (pending, error) {
		p, err := r.at.fromAsync(r.opt, notify, func(m []float32, notify func(error)) (*kv.Request, error) {
			return r.t.t.PushAsync(r.keys, m, r.opt, notify)
		})
		return countRefused(refused, p, err)
	})
}

//export psrtgo_push_ticket_async
func psrtgo_push_ticket_async(h address, ticket C.uint64_t, n C.size_t, grads, opt, req address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	r, err := rowsArgs(h, 0, n, grads, opt, false, "grads")
	if err != nil {
		return fail(e, err)
	}
	refused := new(uint64)
	r.opt.Refused = refused
	return launch(r.t.of, &r.how, req, e, func(notify func(error)) (pending, error) {
		p, err := r.at.fromAsync(r.opt, notify, func(m []float32, notify func(error)) (*kv.Request, error) {
			return r.t.t.PushTicketAsync(kv.Ticket(ticket), int(n), m, r.opt, notify)
		})
		return countRefused(refused, p, err)
	})
}

//export psrtgo_dense_async
func psrtgo_dense_async(h, vector address, n C.size_t, push C.int, opt, req address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, v, o, how, err := denseArgs(h, vector, n, opt)
	if err != nil {
		return fail(e, err)
	}
	return launch(c, &how, req, e, func(notify func(error)) (pending, error) {
		if push != 0 {
			refused := new(uint64)
			o.Refused = refused
			p, err := v.fromAsync(o, notify, func(m []float32, notify func(error)) (*kv.Request, error) {
				return c.c.PushDenseAsync(m, o, notify)
			})
			return countRefused(refused, p, err)
		}
		return v.intoAsync(o, notify, func(m []float32, notify func(error)) (*kv.Request, error) {
			return c.c.PullDenseAsync(m, o, notify)
		})
	})
}

func requestOf(h address) (pending, error) {
	if r, ok := all.get(kindRequest, uint64(h)).(pending); ok {
		return r, nil
	}
	return nil, noHandle(kindRequest, h)
}

//export psrtgo_wait
func psrtgo_wait(h address, timeout C.uint64_t, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	r, err := requestOf(h)
	if err != nil {
		return fail(e, err)
	}
	select {
	case <-r.Done():
		return collect(h, r, e)
	default:
	}
	var late <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(micros(min(timeout, 24*3600*1e6)))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-r.Done():
		return collect(h, r, e)
	case <-late: // without a limit: the request has one
		return fail(e, &kv.Error{Code: kv.Busy, Err: invalid("the request is not done within %v; it goes on", micros(timeout))})
	}
}

func collect(h address, r pending, e *C.psrt_text) C.int {
	all.drop(uint64(h))
	err := r.Err()
	tellRefused(e, refusedRows(r))
	return fail(e, err)
}

//export psrtgo_test
func psrtgo_test(h, done address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	r, err := requestOf(h)
	if err != nil {
		return fail(e, err)
	}
	at, err := place[C.int](done, "done", true)
	if err != nil {
		return fail(e, err)
	}
	select {
	case <-r.Done():
		*at = 1
		return collect(h, r, e)
	default:
		*at = 0
		return C.PSRT_OK
	}
}

//export psrtgo_mem_alloc
func psrtgo_mem_alloc(h address, n C.size_t, out address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	at, err := place[C.uint64_t](out, "addr", true)
	if err != nil {
		return fail(e, err)
	}
	if n == 0 || n > 1<<46 {
		return fail(e, invalid("%d bytes, want 1 to 2^46", uint64(n)))
	}
	*at = 0
	m, err := c.c.Alloc(int(n))
	if err != nil {
		return fail(e, err)
	}
	*at = C.uint64_t(uintptr(unsafe.Pointer(unsafe.SliceData(m.Bytes()))))
	return C.PSRT_OK
}

//export psrtgo_mem_register
func psrtgo_mem_register(h, addr address, n C.size_t, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	if n == 0 {
		return fail(e, invalid("0 bytes cannot be registered"))
	}
	b, err := view[byte](addr, uint64(n), "addr")
	if err == nil {
		if err = populated(b, func() bool { return c.gpus.Has(uint64(addr)) }); errors.Is(err, errOfGPU) {
			return fail(e, c.gpus.Register(uint64(addr), uint64(n)))
		}
	}
	if err == nil {
		_, err = c.c.Register(b)
	}
	return fail(e, err)
}

// populated is populate with the fault, where there is one, as an error.
func populated(b []byte, ofGPU func() bool) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = kv.FaultError(v)
		}
	}()
	return populate(b, ofGPU)
}

//export psrtgo_mem_end
func psrtgo_mem_end(h, addr address, allocated C.int, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	if allocated == 0 {
		if is, err := c.gpus.Unregister(uint64(addr)); is {
			return fail(e, err)
		}
	}
	m, ours := c.c.MemoryAt(uint64(addr))
	if m == nil || ours != (allocated != 0) {
		return fail(e, invalid("%#x is not the address of such memory", uint64(addr)))
	}
	return fail(e, c.c.Unregister(m))
}

//export psrtgo_mem_is_direct
func psrtgo_mem_is_direct(h, addr address, n C.size_t, direct address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	at, err := place[C.int](direct, "direct", true)
	if err != nil {
		return fail(e, err)
	}
	*at = 0
	if c.c.IsDirect(uint64(addr), uint64(n)) {
		*at = 1
	}
	return C.PSRT_OK
}
