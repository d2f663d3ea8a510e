package shm

import "psrt/rdma"

// Vanish does to a domain what the kernel does when its process is killed: the
// sockets end, and nobody says goodbye in the shared rings.
func Vanish(d rdma.Domain) error {
	x := d.(*Domain)
	if err := x.listener.Close(); err != nil {
		return err
	}
	x.mu.Lock()
	endpoints, _ := x.children()
	x.mu.Unlock()
	for _, e := range endpoints {
		if l := e.link.Load(); l != nil {
			if err := l.ctl.conn.CloseWrite(); err != nil {
				return err
			}
		}
	}
	return nil
}
