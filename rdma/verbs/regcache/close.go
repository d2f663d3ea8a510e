package regcache

import (
	"context"
	"sort"
)

// makeRoom closes the oldest idle entry, or waits for a close under way, if a
// new registration would not fit. It lets go of the lock to do so and then is
// not ready: the caller must look again.
func (c *Cache[T]) makeRoom(bytes uint64) (ready bool, err error) {
	if bytes > c.cfg.MaxBytes-min(c.busy.bytes, c.cfg.MaxBytes) || c.busy.count >= c.cfg.MaxCount {
		return false, &FullError{Need: bytes, Busy: c.busy.bytes, Count: c.busy.count, MaxBytes: c.cfg.MaxBytes, MaxCount: c.cfg.MaxCount}
	}
	if c.total.bytes+bytes <= c.cfg.MaxBytes && c.total.count < c.cfg.MaxCount {
		return true, nil
	}
	oldest := c.idle.oldest
	if oldest == nil {
		c.changed.Wait()
		return false, nil
	}
	c.evicted++
	at := sort.Search(len(c.index), func(i int) bool { return c.index[i].start >= oldest.start })
	c.dispose(c.forget(at, at+1))
	return false, nil
}

// dispose closes entries that are in no list, without the lock. They count
// until they are closed.
func (c *Cache[T]) dispose(entries []*entry[T]) {
	if len(entries) == 0 {
		return
	}
	for _, e := range entries {
		c.closing[e] = struct{}{}
	}
	for _, e := range entries {
		c.mu.Unlock()
		err := e.handle.Close()
		c.mu.Lock()
		if err != nil && c.closeErr == nil {
			c.closeErr = &CloseError{Addr: e.start, Bytes: e.bytes(), Cause: err}
		}
		delete(c.closing, e)
		c.total.sub(e.bytes())
		c.changed.Broadcast()
	}
}

// Invalidate forgets every registration that shares a page with [addr,
// addr+length). Those that nobody leases are closed when it returns; busy is
// how many others there are, which go with their last lease. The memory may be
// unmapped when busy is 0.
func (c *Cache[T]) Invalidate(addr, length uint64) (busy int, err error) {
	start, end, err := c.align(addr, length)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.calls[:0]
	for _, k := range c.calls {
		if k.stale = k.entry.overlaps(start, end); !k.stale {
			kept = append(kept, k)
		}
	}
	clear(c.calls[len(kept):])
	c.calls = kept
	c.dispose(c.forget(c.overlapping(start, end)))
	for c.anyOverlaps(c.closing, start, end) > 0 {
		c.changed.Wait()
	}
	return c.anyOverlaps(c.stale, start, end), nil
}

func (c *Cache[T]) anyOverlaps(set map[*entry[T]]struct{}, start, end uint64) (n int) {
	for e := range set {
		if e.overlaps(start, end) {
			n++
		}
	}
	return n
}

// Close refuses new leases, closes what is idle, and waits until the last
// lease has ended or ctx has: then it is a *BusyError, and what is leased is
// closed by its Release all the same. It gives the first error that closing a
// registration met since New.
func (c *Cache[T]) Close(ctx context.Context) error {
	wake := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer wake()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.dispose(c.forget(0, len(c.index)))
	for c.total.count > 0 {
		if ctx.Err() != nil {
			return &BusyError{Leases: c.leases, Count: c.total.count, Bytes: c.total.bytes, Cause: context.Cause(ctx)}
		}
		c.changed.Wait()
	}
	return c.closeErr
}
