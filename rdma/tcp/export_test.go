package tcp

import (
	"syscall"

	"psrt/rdma"
)

// Vanish does to a domain what the kernel does when its process is killed: the
// connections are reset, in the middle of whatever they carry.
func Vanish(d rdma.Domain) error {
	x := d.(*Domain)
	if err := x.listener.Close(); err != nil {
		return err
	}
	for _, ep := range x.endpointsOf(nil) {
		if !ep.connected.Load() {
			continue
		}
		for i := range ep.ask {
			for _, p := range []*port{ep.ask[i].p, ep.answer[i].p} {
				if err := p.raw.Control(reset); err != nil {
					return err
				}
			}
		}
		ep.closeLinks()
	}
	return nil
}

// reset makes the close to come an abortive one.
func reset(fd uintptr) {
	_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
}
