package tcp

import "syscall"

// Requests, acknowledgements and answers without values have links of their own, and a
// host's queue to its card holds milliseconds of bulk bytes at 100 Mbit/s: what others wait
// for goes in front of them. The kernel's queue of three bands (pfifo_fast) does that by a
// socket's priority; one by flow (fq_codel) does it by itself.
//
// A link is urgent until it writes more than urgentBytes at once, and then never again: the
// packets of one connection are never out of order, because those before it are in front.
const (
	urgentBytes = 16 << 10
	urgent      = 6 // TC_PRIO_INTERACTIVE, linux/pkt_sched.h; what is more needs CAP_NET_ADMIN
)

func prioritise(fd uintptr, priority int) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PRIORITY, priority)
}

// demote ends a link's being urgent. The writer's user.
func (p *port) demote() {
	p.bulk = true
	_ = p.raw.Control(func(fd uintptr) { _ = prioritise(fd, 0) }) // cannot fail: 0 is anybody's
}
