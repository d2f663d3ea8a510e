package shm

import (
	"sync/atomic"

	"psrt/rdma"
)

// view is a peer's region mapped here. All endpoints of the domain that reach
// the same peer share it, so its page tables exist once.
type view struct {
	seg      *segment // nil: refused by the owner
	access   rdma.Access
	writable bool // mapped for writing
	key      viewKey
	refs     int         // endpoints that hold it; guarded by Domain.mu
	exposed  atomic.Bool // Endpoint.Map gave it away
}

type viewKey struct {
	peer    id // domain
	key     uint64
	receive bool // mapped as the target of sends: for writing, whatever the access
}

// viewSet is the views of one endpoint. It is replaced, never changed, so that
// Post reads it without a lock.
type viewSet map[viewKey]*view

func (s viewSet) with(v *view) viewSet {
	set := make(viewSet, len(s)+1)
	for k, x := range s {
		set[k] = x
	}
	set[v.key] = v
	return set
}

func (s viewSet) without(v *view) viewSet {
	set := make(viewSet, len(s))
	for k, x := range s {
		if x != v {
			set[k] = x
		}
	}
	return set
}

// shareView gives the domain's view for a key and counts one more user, or
// nil when there is none yet.
func (d *Domain) shareView(k viewKey) *view {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.views[k]
	if v != nil {
		v.refs++
	}
	return v
}

// adoptView enters a new view, or gives back the one that another endpoint
// entered meanwhile.
func (d *Domain) adoptView(v *view) *view {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.views[v.key]; old != nil {
		old.refs++
		v.seg.unmap()
		return old
	}
	v.refs = 1
	d.views[v.key] = v
	return v
}

// dropView counts one user less; the last one unmaps.
func (d *Domain) dropView(v *view) {
	if v.seg == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.refs--; v.refs > 0 {
		return
	}
	delete(d.views, v.key)
	v.seg.unmap()
}
