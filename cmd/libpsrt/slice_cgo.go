//go:build cgo

package main

// #include "calls.h"
import "C"

import (
	"context"
	"errors"
	"time"

	"psrt/sched/kv"
)

// maxSlice bounds psrt_thread_slice's time: a minute.
const maxSlice = 60 * 1e6

//export psrtgo_thread_slice
func psrtgo_thread_slice(us C.uint64_t, req address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	if us == 0 {
		e.slice_us, e.slot = 0, 0
		return C.PSRT_OK
	}
	if us > maxSlice {
		return fail(e, invalid("a slice of %d us, at most %d", uint64(us), uint64(maxSlice)))
	}
	if _, err := place[C.uint64_t](req, "req", true); err != nil {
		return fail(e, err)
	}
	e.slice_us, e.slot = us, req
	return C.PSRT_OK
}

// slice is how long a call of this thread waits before it returns as a request; 0: until
// it is done. A request that the thread has not fetched yet is not overwritten.
func slice(e *C.psrt_text) time.Duration {
	if e.slice_us == 0 {
		return 0
	}
	begin() // the slot may be no memory any more
	if *(*C.uint64_t)(pointer(e.slot)) != 0 {
		return 0
	}
	return micros(e.slice_us)
}

// goesOn gives a call that is not done to the thread as a request. owner's end ends it.
func goesOn(e *C.psrt_text, r pending, owner any) C.int {
	h, err := all.put(kindRequest, r, owner)
	if err != nil { // no handle is left: the call is waited for
		<-r.Done()
		err := r.Err()
		tellRefused(e, refusedRows(r))
		return fail(e, err)
	}
	*(*C.uint64_t)(pointer(e.slot)) = C.uint64_t(h)
	return fail(e, &kv.Error{Code: kv.Busy, Err: invalid("the call is not done yet; it goes on")})
}

// ended is fail for a call that kv may have returned from before it was done. refused is
// nil where the call is no push.
func ended(e *C.psrt_text, owner any, refused *uint64, err error) C.int {
	if u := new(kv.Unfinished); err != nil && errors.As(err, &u) {
		return goesOn(e, counted{u.Request, refused}, owner)
	}
	tellRefused(e, refused)
	return fail(e, err)
}

// ticketed is a pull whose ticket goes to the caller when it is collected.
type ticketed struct {
	*kv.Unfinished
	to *kv.Ticket
}

func (t ticketed) Done() <-chan struct{} { return t.Request.Done() }
func (t ticketed) Cancel()               { t.Request.Cancel() }
func (t ticketed) Err() error {
	err := t.Request.Err()
	if err == nil {
		*t.to = t.Ticket()
	}
	return err
}

// outcome holds a call's results: take hands them to the caller, drop frees them.
type outcome struct {
	take    func() error
	drop    func()
	refused *uint64 // rows refused of a push; nil: the call is none
}

// aside is a call that runs on a goroutine, so that its thread can leave it.
type aside struct {
	done   chan struct{}
	cancel context.CancelFunc // nil: it goes on to its own end
	got    outcome
	err    error
}

func (a *aside) Done() <-chan struct{} { return a.done }

// Err hands the results over; it is called by the thread that collects the call.
func (a *aside) Err() error {
	if a.err == nil && a.got.take != nil {
		begin()
		a.err = a.got.take()
	}
	return a.err
}

func (a *aside) Refused() *uint64 { return a.got.refused }

func (a *aside) Cancel() {
	if a.cancel != nil {
		a.cancel()
	}
}

// Drop frees the results of a call that nobody collects.
func (a *aside) Drop() {
	if a.err == nil && a.got.drop != nil {
		a.got.drop()
	}
}

// waits runs a call that may wait: in its thread, or, where that has a slice, beside it.
// The call hands its results over by outcome, and ends with ctx if ends says so.
func waits(e *C.psrt_text, owner any, ends bool, call func(ctx context.Context) (outcome, error)) C.int {
	limit := slice(e)
	if limit == 0 {
		got, err := call(context.Background())
		if err == nil && got.take != nil {
			err = got.take()
		}
		tellRefused(e, got.refused)
		return fail(e, err)
	}
	a := &aside{done: make(chan struct{})}
	ctx := context.Background()
	if ends {
		ctx, a.cancel = context.WithCancel(ctx)
	}
	go func() {
		defer close(a.done)
		defer func() {
			if v := recover(); v != nil {
				a.err = kv.FaultError(v)
			}
		}()
		begin()
		a.got, a.err = call(ctx)
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-a.done:
		a.Cancel()
		err := a.Err()
		tellRefused(e, a.got.refused)
		return fail(e, err)
	case <-t.C:
		return goesOn(e, a, owner)
	}
}

// does is waits for a call without results.
func does(e *C.psrt_text, owner any, call func() error) C.int {
	return waits(e, owner, false, func(context.Context) (outcome, error) { return outcome{}, call() })
}

// cancelWithin bounds psrt_cancel.
const cancelWithin = 50 * time.Millisecond

//export psrtgo_cancel
func psrtgo_cancel(h address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	r, err := requestOf(h)
	if err != nil {
		return fail(e, err)
	}
	if c, ok := r.(interface{ Cancel() }); ok {
		c.Cancel()
	}
	t := time.NewTimer(cancelWithin)
	defer t.Stop()
	select {
	case <-r.Done():
	case <-t.C:
		return fail(e, &kv.Error{Code: kv.Busy, Err: invalid("the request goes on to its own end; collect it then")})
	}
	if !all.drop(uint64(h)) {
		return fail(e, noHandle(kindRequest, h))
	}
	if d, ok := r.(interface{ Drop() }); ok {
		go d.Drop() // it may take a while
	}
	return C.PSRT_OK
}

// perThread is CUDA's stream that is each thread's own: its calls stay in their thread.
const perThread = 2

// sliced runs a call with rows or a vector. kv makes a request of one that is not done in
// time; one with a GPU's memory runs beside its thread.
func (f *floatsAt) sliced(e *C.psrt_text, c *clientHandle, o *kv.Options, call func() error) C.int {
	switch {
	case f.gpus == nil:
		o.Linger = slice(e)
		return ended(e, c, o.Refused, call())
	case f.place.Stream == perThread:
		return ended(e, c, o.Refused, call())
	}
	return waits(e, c, false, func(context.Context) (outcome, error) { return outcome{refused: o.Refused}, call() })
}

func (r *rowsCall) into(e *C.psrt_text, pull func([]float32) error) C.int {
	return r.at.sliced(e, r.t.of, &r.opt, func() error { return r.at.into(r.opt, pull) })
}

func (r *rowsCall) from(e *C.psrt_text, push func([]float32) error) C.int {
	r.opt.Refused = new(uint64)
	return r.at.sliced(e, r.t.of, &r.opt, func() error { return r.at.from(r.opt, push) })
}

// intoTicket is into for a pull with a ticket, which goes to at when the pull is collected.
func (r *rowsCall) intoTicket(e *C.psrt_text, at *kv.Ticket) C.int {
	var number kv.Ticket
	pull := func() error {
		return r.at.into(r.opt, func(m []float32) (err error) {
			number, err = r.t.t.PullTicket(r.keys, m, r.opt)
			return err
		})
	}
	if r.at.gpus != nil && r.at.place.Stream != perThread {
		return waits(e, r.t.of, false, func(context.Context) (outcome, error) {
			err := pull()
			return outcome{take: func() error { *at = number; return nil }}, err
		})
	}
	if r.at.gpus == nil {
		r.opt.Linger = slice(e)
	}
	err := pull()
	if u := new(kv.Unfinished); err != nil && errors.As(err, &u) {
		return goesOn(e, ticketed{u, at}, r.t.of)
	}
	if err == nil {
		*at = number
	}
	return fail(e, err)
}
