//go:build cgo

package verbs

// #include <errno.h>
// #include "loop.h"
import "C"

import (
	"time"
	"unsafe"
)

func (l *Loop) toC() C.struct_psrt_loop {
	starts := C.uint32_t(0)
	if l.Starts {
		starts = 1
	}
	return C.struct_psrt_loop{local: C.uint64_t(l.Local), remote: C.uint64_t(l.Remote), line: C.uint64_t(l.Line),
		first: C.uint64_t(l.First), timeout_nanos: C.uint64_t(l.Timeout), lkey: C.uint32_t(l.LKey), rkey: C.uint32_t(l.RKey),
		bytes: C.uint32_t(l.Bytes), slots: C.uint32_t(l.Slots), iterations: C.uint32_t(l.Iterations), every: C.uint32_t(l.Every),
		op: C.uint32_t(l.Op), starts: starts, inline_max: C.uint32_t(l.InlineMax)}
}

// Ping plays l.Iterations rounds of ping-pong in C. halves gets half of each
// round trip on the side that starts, and is nil on the other.
func (p *QP) Ping(q *CQ, l *Loop, halves []time.Duration) error {
	c := l.toC()
	if halves != nil && len(halves) < l.Iterations {
		return failed("ping", -int(C.EINVAL))
	}
	return failed("bare ping-pong", int(C.psrt_verbs_loop_ping(p.q, q.q, &c, (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(halves))))))
}

// Stream keeps l.Slots requests in flight in C and says how long it took.
func (p *QP) Stream(q *CQ, l *Loop) (time.Duration, error) {
	c := l.toC()
	var nanos C.uint64_t
	r := C.psrt_verbs_loop_stream(p.q, q.q, &c, &nanos)
	return time.Duration(nanos), failed("bare stream", int(r))
}
