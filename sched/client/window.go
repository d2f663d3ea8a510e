package client

import "psrt/rdma"

// Window is a working set's memory as a peer that is no server sees it: the whole, and
// the bytes at which its parts begin. A dense vector has no keys.
type Window struct {
	Memory              rdma.RemoteRange
	Keys, Values, Grads uint64
}

// Window registers the working set with a domain. It holds until the set is planned for
// more rows than ever before. Of a set that has keys only there is nothing else; one that
// has never been planned for a row has no memory.
func (r *Rows) Window(d rdma.Domain) (w Window, err error) {
	if r.arena == nil {
		return w, nil
	}
	if r.lean != noRows {
		_, vals := r.place(false)
		_, grads := r.place(true)
		w = Window{Values: uint64(vals), Grads: uint64(grads)}
	}
	r.arena.beside = true
	w.Memory, err = r.arena.remote(d, 0, len(r.arena.memory.Bytes()))
	return w, err
}

// Window registers the vector with a domain.
func (d *Dense) Window(domain rdma.Domain) (w Window, err error) {
	w.Grads = uint64(align64(d.n * 4))
	d.arena.beside = true
	w.Memory, err = d.arena.remote(domain, 0, len(d.arena.memory.Bytes()))
	return w, err
}
