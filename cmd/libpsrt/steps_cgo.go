//go:build cgo

package main

// #include "calls.h"
import "C"

import (
	"context"
	"unsafe"

	"psrt/sched/kv"
	"psrt/sched/psmsg"
)

//export psrtgo_finish_steps
func psrtgo_finish_steps(h address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	return does(e, c, func() error { return c.c.FinishSteps(0) })
}

// minPart is the size of a psrt_push_part that the oldest caller has.
const minPart = C.size_t(unsafe.Sizeof(C.psrt_push_part{}))

//export psrtgo_push_status
func psrtgo_push_status(h address, push C.uint64_t, parts address, room C.size_t, count address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	n, err := place[C.size_t](count, "n", true)
	if err != nil {
		return fail(e, err)
	}
	stride := minPart
	if room > 0 {
		size, err := place[C.uint32_t](parts, "parts", true)
		if err != nil {
			return fail(e, err)
		}
		if stride = C.size_t(*size); stride < minPart || stride > 4096 || stride%8 != 0 {
			return fail(e, invalid("parts[0].size is %d; set it to sizeof(psrt_push_part)", uint32(*size)))
		}
		if room > 1<<20 {
			return fail(e, invalid("room for %d parts, at most %d", uint64(room), 1<<20))
		}
	}
	theirs, err := view[byte](parts, uint64(room*stride), "parts")
	if err != nil {
		return fail(e, err)
	}
	return waits(e, c, false, func(context.Context) (outcome, error) {
		all, err := c.c.PushStatus(uint64(push), 0)
		return outcome{take: func() error { return giveParts(all, theirs, int(stride), int(room), n) }}, err
	})
}

// giveParts fills the caller's room parts of stride bytes, and n.
func giveParts(all []kv.PushPart, theirs []byte, stride, room int, n *C.size_t) error {
	*n = C.size_t(len(all))
	if len(all) > room {
		return tooSmall("parts has room for %d, the push has %d", room, len(all))
	}
	for i, p := range all {
		out := C.psrt_push_part{size: C.uint32_t(stride), state: stateOf(p.State), part: C.uint32_t(p.Lane), server: C.uint32_t(p.Server), table: C.uint32_t(p.Table), rows: C.uint64_t(p.Rows)}
		if p.Ends {
			out.ends_step = 1
		}
		at := theirs[i*stride : (i+1)*stride]
		clear(at)
		copy(at, unsafe.Slice((*byte)(unsafe.Pointer(&out)), unsafe.Sizeof(out)))
	}
	return nil
}

// The dense vector has this number among tables; psrt.h says so, too.
var _ = [1]struct{}{}[psmsg.DenseLead-C.PSRT_DENSE_TABLE]

func stateOf(s kv.PushState) C.uint32_t {
	switch s {
	case kv.PushCounts:
		return C.PSRT_PUSH_APPLIED
	case kv.PushMissing:
		return C.PSRT_PUSH_MISSING
	}
	return C.PSRT_PUSH_UNKNOWN
}

//export psrtgo_push_states
func psrtgo_push_states(h address, push C.uint64_t, keys address, n C.size_t, states address, e *C.psrt_text) (result C.int) {
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
	out, err := view[uint8](states, uint64(n), "states")
	if err != nil {
		return fail(e, err)
	}
	found := make([]kv.PushState, len(k))
	return waits(e, t.of, false, func(context.Context) (outcome, error) {
		err := t.t.PushStates(uint64(push), k, found, 0)
		return outcome{take: func() error {
			for i, s := range found {
				out[i] = uint8(stateOf(s))
			}
			return nil
		}}, err
	})
}

//export psrtgo_push_missing
func psrtgo_push_missing(h address, push C.uint64_t, keys address, n C.size_t, grads, opt address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	e.refused = 0
	begin()
	r, err := rowsArgs(h, keys, n, grads, opt, true, "grads")
	if err != nil {
		return fail(e, err)
	}
	r.opt.Refused = new(uint64)
	send := func() error {
		return r.at.from(r.opt, func(m []float32) error { return r.t.t.PushMissing(uint64(push), r.keys, m, r.opt) })
	}
	if r.at.gpus != nil && r.at.place.Stream == perThread {
		return ended(e, r.t.of, r.opt.Refused, send())
	}
	return waits(e, r.t.of, false, func(context.Context) (outcome, error) { return outcome{refused: r.opt.Refused}, send() })
}
