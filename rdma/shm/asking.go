package shm

import (
	"os"

	"psrt/rdma"
)

// ask makes sure that a region of the peer is on its way; with mu. The answer
// comes to take.
func (e *Endpoint) ask(l *link, k viewKey) {
	if _, asked := e.asked[k]; asked {
		return
	}
	m := message{kind: kindAsk, from: e.id, key: k.key}
	if k.receive {
		m.flags = flagReceive
	}
	// A full socket: Poll asks again. A broken one: serve sees it too.
	if l.ctl.send(&m) == nil {
		e.asked[k] = struct{}{}
	}
}

// take maps a granted region. A refusal is kept as well: keys are never used
// twice, so it stays right.
func (e *Endpoint) take(l *link, m *message, files []*os.File) {
	k := viewKey{peer: l.domain, key: m.key, receive: m.flags&flagReceive != 0}
	e.mu.Lock()
	_, asked := e.asked[k]
	e.mu.Unlock()
	if !asked {
		return
	}
	v := &view{key: k}
	if len(files) == 1 {
		v = e.d.viewOf(v, m, files[0])
	}
	e.mu.Lock()
	delete(e.asked, k)
	set := e.views.Load().with(v)
	e.views.Store(&set)
	e.mu.Unlock()
	select {
	case e.changed <- struct{}{}:
	default:
	}
	e.q.Wake()
}

// viewOf gives the domain's view of a granted region, mapping it if this is
// the first. What cannot be mapped is refused: v as it came.
func (d *Domain) viewOf(v *view, m *message, file *os.File) *view {
	if shared := d.shareView(v.key); shared != nil {
		return shared
	}
	writable := m.flags&flagWritable != 0
	seg, err := mapSegment(file, m.offset, m.length, writable)
	if err != nil {
		return v
	}
	v.seg, v.writable, v.access = seg, writable, rdma.Access(m.access)&rdma.AccessAll
	if !writable {
		v.access &= rdma.AccessRemoteRead
	}
	return d.adoptView(v)
}

// revoked unmaps a region that its owner closed, unless Map gave it away:
// then it stays until this endpoint closes.
func (e *Endpoint) revoked(l *link, key uint64) {
	for _, receive := range []bool{false, true} {
		e.mu.Lock()
		old := e.views.Load()
		v := (*old)[viewKey{peer: l.domain, key: key, receive: receive}]
		if v == nil || v.exposed.Load() {
			e.mu.Unlock()
			continue
		}
		set := old.without(v)
		e.views.Store(&set)
		e.mu.Unlock()
		e.guard.passed()
		e.q.guard.passed()
		e.d.dropView(v)
	}
}
