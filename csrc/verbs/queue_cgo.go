//go:build cgo

package verbs

// #cgo noescape psrt_verbs_cq_poll
// #cgo nocallback psrt_verbs_cq_poll
// #cgo noescape psrt_verbs_cq_arm
// #cgo nocallback psrt_verbs_cq_arm
// #cgo noescape psrt_verbs_cq_wait
// #cgo nocallback psrt_verbs_cq_wait
// #cgo noescape psrt_verbs_post_send
// #cgo nocallback psrt_verbs_post_send
// #cgo noescape psrt_verbs_srq_post
// #cgo nocallback psrt_verbs_srq_post
// #cgo noescape psrt_verbs_post_recv
// #cgo nocallback psrt_verbs_post_recv
// #include "verbs.h"
import "C"

import (
	"time"
	"unsafe"
)

// CQ is a completion queue with its own completion channel. Poll may run
// beside Wait; two of the same kind may not run at once.
type CQ struct{ q *C.struct_psrt_cq }

func (c *Context) NewCQ(entries int) (*CQ, error) {
	var q *C.struct_psrt_cq
	if r := C.psrt_verbs_cq_create(c.c, C.int(entries), &q); r != 0 {
		return nil, failed("create completion queue", int(r))
	}
	return &CQ{q: q}, nil
}

func (q *CQ) Close() error {
	return failed("destroy completion queue", int(C.psrt_verbs_cq_destroy(q.q)))
}

// Poll fills ds with what has completed.
func (q *CQ) Poll(ds []Done) (int, error) {
	if len(ds) == 0 {
		return 0, nil
	}
	n := C.psrt_verbs_cq_poll(q.q, (*C.struct_psrt_done)(unsafe.Pointer(unsafe.SliceData(ds))), C.int(len(ds)))
	return max(int(n), 0), failed("poll completion queue", int(n))
}

// Arm asks for an event at the next completion. Poll once more after it:
// completions that came before it make no event.
func (q *CQ) Arm() error { return failed("request notification", int(C.psrt_verbs_cq_arm(q.q))) }

// Wait blocks until the armed queue has an event, wakeFD (a non-blocking
// eventfd, emptied here) is signaled, or the time is over. An error is ENODEV at
// least where the device was removed.
func (q *CQ) Wait(wakeFD int, timeout time.Duration) error {
	return failed("wait for completion event", int(C.psrt_verbs_cq_wait(q.q, C.int(wakeFD), C.int64_t(max(timeout, 0)))))
}

// QP is a reliable-connected queue pair with one scatter entry per request.
type QP struct {
	q      *C.struct_psrt_qp
	Num    uint32
	Inline int // bytes one request may carry inline
}

// SRQ is a pool of receives without buffers that many queue pairs share.
type SRQ struct{ s *C.struct_psrt_srq }

func (c *Context) NewSRQ(receives int) (*SRQ, error) {
	var s *C.struct_psrt_srq
	if r := C.psrt_verbs_srq_create(c.c, C.int(receives), &s); r != 0 {
		return nil, failed("create shared receive queue", int(r))
	}
	return &SRQ{s: s}, nil
}

// Close fails while queue pairs use it.
func (s *SRQ) Close() error {
	return failed("destroy shared receive queue", int(C.psrt_verbs_srq_destroy(s.s)))
}

// Post adds n receives, which all complete with the same ID, and returns how
// many were taken.
func (s *SRQ) Post(id uint64, n int) (int, error) {
	var posted C.int
	r := C.psrt_verbs_srq_post(s.s, C.uint64_t(id), C.int(n), &posted)
	return int(posted), failed("post shared receive", int(r))
}

// NewQP makes a queue pair whose receives come from pool, or where that is nil
// from a queue of its own of recvWR.
func (c *Context) NewQP(q *CQ, pool *SRQ, sendWR, recvWR, inline int) (*QP, error) {
	var p *C.struct_psrt_qp
	var shared *C.struct_psrt_srq
	if pool != nil {
		shared = pool.s
	}
	var num, got C.uint32_t
	r := C.psrt_verbs_qp_create(c.c, q.q, shared, C.int(sendWR), C.int(recvWR), C.int(inline), &p, &num, &got)
	if r != 0 {
		return nil, failed("create queue pair", int(r))
	}
	return &QP{q: p, Num: uint32(num), Inline: int(got)}, nil
}

func (p *QP) Close() error { return failed("destroy queue pair", int(C.psrt_verbs_qp_destroy(p.q))) }

// Init brings a new or Reset queue pair to INIT: receives may be posted.
func (p *QP) Init(port int) error {
	return failed("queue pair to INIT", int(C.psrt_verbs_qp_init(p.q, C.int(port))))
}

// ToRTR brings a queue pair from INIT to RTR: it answers the peer.
func (p *QP) ToRTR(t *Path) error {
	c := t.toC()
	return failed("queue pair to RTR", int(C.psrt_verbs_qp_rtr(p.q, &c)))
}

// ToRTS brings a queue pair from RTR to RTS: it sends.
func (p *QP) ToRTS(t *Path) error {
	c := t.toC()
	return failed("queue pair to RTS", int(C.psrt_verbs_qp_rts(p.q, &c)))
}

func (t *Path) toC() C.struct_psrt_path {
	c := C.struct_psrt_path{
		dest_qpn: C.uint32_t(t.DestQPN), dest_psn: C.uint32_t(t.DestPSN), psn: C.uint32_t(t.PSN),
		port: C.uint32_t(t.Port), gid_index: C.uint32_t(t.GIDIndex), global: C.uint32_t(t.Global),
		dlid: C.uint32_t(t.DLID), mtu: C.uint32_t(t.MTU), traffic_class: C.uint32_t(t.TrafficClass),
		hop_limit: C.uint32_t(t.HopLimit), rd_atomic: C.uint32_t(t.ReadsOut), dest_rd_atomic: C.uint32_t(t.ReadsIn),
		min_rnr_timer: C.uint32_t(t.MinRNRTimer), timeout: C.uint32_t(t.Timeout), retry: C.uint32_t(t.Retry),
		rnr_retry: C.uint32_t(t.RNRRetry),
	}
	for i, b := range t.DGID {
		c.dgid[i] = C.uint8_t(b)
	}
	return c
}

// Reset forgets everything posted, without completions.
func (p *QP) Reset() error { return failed("queue pair to RESET", int(C.psrt_verbs_qp_reset(p.q))) }

// Error stops the queue pair; what is posted completes as StatusFlushed.
func (p *QP) Error() error { return failed("queue pair to ERR", int(C.psrt_verbs_qp_error(p.q))) }

// PostSend posts requests with one doorbell per 32 of them, or 32 KiB, and
// returns how many were taken. inline holds the bytes of those with Offset.
func (p *QP) PostSend(ss []Send, inline []byte) (int, error) {
	if len(ss) == 0 {
		return 0, nil
	}
	var posted C.int
	r := C.psrt_verbs_post_send(p.q, (*C.struct_psrt_send)(unsafe.Pointer(unsafe.SliceData(ss))), C.int(len(ss)),
		(*C.uint8_t)(unsafe.SliceData(inline)), &posted)
	return int(posted), failed("post send", int(r))
}

// PostRecv posts receives and returns how many were taken.
func (p *QP) PostRecv(rs []Recv) (int, error) {
	if len(rs) == 0 {
		return 0, nil
	}
	var posted C.int
	r := C.psrt_verbs_post_recv(p.q, (*C.struct_psrt_recv)(unsafe.Pointer(unsafe.SliceData(rs))), C.int(len(rs)), &posted)
	return int(posted), failed("post receive", int(r))
}
