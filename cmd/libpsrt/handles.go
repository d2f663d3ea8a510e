package main

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// kind is what a handle stands for.
type kind uint64

const (
	kindClient kind = iota + 1
	kindTable
	kindRequest
)

func (k kind) String() string {
	return [...]string{"nothing", "a client", "a table", "a request"}[k&3]
}

// A handle, as C holds it in the shape of a pointer:
//
//	63            24 23      3 2    1 0
//	[ generation 40 ][index 21][kind 2][1]
//
// The generation rises with every handle given out, so none comes twice in a
// process's life; it is odd, so it is never the address of anything.
const (
	indexBits  = 21
	genShift   = 3 + indexBits
	maxHandles = 1 << indexBits
)

// handles finds what handles stand for. Looking up takes no lock.
type handles struct {
	seats atomic.Pointer[[]*seat]
	mu    sync.Mutex
	free  []uint32
	gen   uint64
}

// seat is one index; what is there has the handle that put it there.
type seat struct{ it atomic.Pointer[held] }

type held struct {
	handle uint64
	what   any
	owner  any // whose end ends it too
}

// put gives out a handle.
func (h *handles) put(k kind, what, owner any) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.free) == 0 {
		if err := h.grow(); err != nil {
			return 0, err
		}
	}
	i := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	h.gen++
	n := h.gen<<genShift | uint64(i)<<3 | uint64(k)<<1 | 1
	(*h.seats.Load())[i].it.Store(&held{n, what, owner})
	return n, nil
}

// grow doubles the seats. With mu.
func (h *handles) grow() error {
	var old []*seat
	if p := h.seats.Load(); p != nil {
		old = *p
	}
	n := max(64, 2*len(old))
	if n > maxHandles {
		return fmt.Errorf("libpsrt: %d handles are open, the limit: close clients, and collect requests by psrt_wait", len(old))
	}
	all := make([]*seat, n)
	copy(all, old)
	for i := n - 1; i >= len(old); i-- {
		all[i] = &seat{}
		h.free = append(h.free, uint32(i))
	}
	h.seats.Store(&all)
	return nil
}

// get is what a handle stands for, nil if it is none of that kind.
func (h *handles) get(k kind, handle uint64) any {
	p := h.seats.Load()
	i := handle >> 3 & (maxHandles - 1)
	if p == nil || i >= uint64(len(*p)) || kind(handle>>1&3) != k {
		return nil
	}
	it := (*p)[i].it.Load()
	if it == nil || it.handle != handle {
		return nil
	}
	return it.what
}

// drop ends a handle; false: it was ended already.
func (h *handles) drop(handle uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.seats.Load()
	i := handle >> 3 & (maxHandles - 1)
	if p == nil || i >= uint64(len(*p)) {
		return false
	}
	it := (*p)[i].it.Load()
	if it == nil || it.handle != handle {
		return false
	}
	h.clear(uint32(i))
	return true
}

func (h *handles) clear(i uint32) {
	(*h.seats.Load())[i].it.Store(nil)
	h.free = append(h.free, i)
}

// dropOf ends all handles of an owner.
func (h *handles) dropOf(owner any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, p := range *h.seats.Load() {
		if it := p.it.Load(); it != nil && it.owner == owner {
			h.clear(uint32(i))
		}
	}
}

// open is how many handles there are.
func (h *handles) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.seats.Load(); p != nil {
		return len(*p) - len(h.free)
	}
	return 0
}
