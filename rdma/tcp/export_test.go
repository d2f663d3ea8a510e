package tcp

import "psrt/rdma"

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
			if err := ep.ask[i].conn.SetLinger(0); err != nil {
				return err
			}
			if err := ep.answer[i].conn.SetLinger(0); err != nil {
				return err
			}
		}
		ep.closeLinks()
	}
	return nil
}
