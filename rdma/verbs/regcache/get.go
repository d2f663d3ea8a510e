package regcache

import (
	"io"
	"slices"
)

// call is a registration under way.
type call[T io.Closer] struct {
	entry   *entry[T] // without handle until done
	waiters int       // besides the caller
	stale   bool      // invalidated meanwhile
	done    chan struct{}
	err     error // valid after done
}

// Get leases a registration that covers [addr, addr+length), which must be
// mapped, and stay mapped until the lease is released.
func (c *Cache[T]) Get(addr, length uint64) (Lease[T], error) {
	start, end, err := c.align(addr, length)
	if err != nil {
		return Lease[T]{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.closed {
			return Lease[T]{}, ErrClosed
		}
		if e := c.covering(start, end); e != nil {
			c.hits++
			return c.lease(e), nil
		}
		if k := c.callCovering(start, end); k != nil {
			return c.join(k)
		}
		ready, err := c.makeRoom(end - start)
		if err != nil {
			return Lease[T]{}, err
		}
		if ready {
			return c.register(start, end)
		}
	}
}

// callCovering finds a registration under way for all of [start, end).
func (c *Cache[T]) callCovering(start, end uint64) *call[T] {
	for _, k := range c.calls {
		if k.entry.start <= start && end <= k.entry.end {
			return k
		}
	}
	return nil
}

// join waits for another's registration. The lease is counted by register, so
// that the entry cannot go before this wakes up.
func (c *Cache[T]) join(k *call[T]) (Lease[T], error) {
	c.hits++
	k.waiters++
	c.mu.Unlock()
	<-k.done
	c.mu.Lock()
	if k.err != nil {
		return Lease[T]{}, k.err
	}
	return Lease[T]{Handle: k.entry.handle, cache: c, entry: k.entry}, nil
}

// register makes a registration for which there is room.
func (c *Cache[T]) register(start, end uint64) (Lease[T], error) {
	c.misses++
	e := &entry[T]{start: start, end: end}
	k := &call[T]{entry: e, done: make(chan struct{})}
	c.calls = append(c.calls, k)
	c.stale[e] = struct{}{}
	c.total.add(e.bytes())
	c.busy.add(e.bytes())
	c.mu.Unlock()
	handle, err := c.cfg.Register(start, end-start)
	c.mu.Lock()
	defer close(k.done)
	if !k.stale {
		c.calls = slices.DeleteFunc(c.calls, func(other *call[T]) bool { return other == k })
	}
	if err != nil {
		k.err = &RegisterError{Addr: start, Bytes: e.bytes(), Cause: err}
		delete(c.stale, e)
		c.total.sub(e.bytes())
		c.busy.sub(e.bytes())
		c.changed.Broadcast()
		return Lease[T]{}, k.err
	}
	e.handle = handle
	e.refs = 1 + k.waiters
	c.leases += e.refs
	var inside []*entry[T]
	if !k.stale && !c.closed {
		inside = c.insert(e)
	}
	c.dispose(inside)
	return Lease[T]{Handle: handle, cache: c, entry: e}, nil
}

// Lease holds a registration open. It is used by one goroutine at a time and
// not copied.
type Lease[T io.Closer] struct {
	Handle T
	cache  *Cache[T]
	entry  *entry[T]
}

// Addr and Bytes are what the registration covers, at least what was asked.
func (l *Lease[T]) Addr() uint64  { return l.entry.start }
func (l *Lease[T]) Bytes() uint64 { return l.entry.bytes() }

// Release ends the lease; the second call does nothing. Work requests that use
// the handle must have completed.
func (l *Lease[T]) Release() {
	c, e := l.cache, l.entry
	if c == nil {
		return
	}
	l.cache = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases--
	if e.refs--; e.refs > 0 {
		return
	}
	c.busy.sub(e.bytes())
	if e.indexed {
		c.idle.push(e)
		c.changed.Broadcast()
		return
	}
	delete(c.stale, e)
	c.dispose([]*entry[T]{e})
}

// lease counts a lease of an indexed entry.
func (c *Cache[T]) lease(e *entry[T]) Lease[T] {
	if e.refs == 0 {
		c.idle.remove(e)
		c.busy.add(e.bytes())
	}
	e.refs++
	c.leases++
	return Lease[T]{Handle: e.handle, cache: c, entry: e}
}
