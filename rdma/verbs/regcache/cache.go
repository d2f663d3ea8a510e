package regcache

import (
	"io"
	"sync"
)

// Config of a Cache; everything but PageBytes is required.
type Config[T io.Closer] struct {
	// Register pins [addr, addr+length), both whole pages. It is called
	// without locks, for different ranges at the same time.
	Register  func(addr, length uint64) (T, error)
	PageBytes uint64 // a power of two; 0 is 4096
	MaxBytes  uint64
	MaxCount  int // of registrations
}

// Cache is safe for concurrent use.
type Cache[T io.Closer] struct {
	cfg Config[T]

	mu      sync.Mutex
	changed sync.Cond // a close ended, or a busy registration became idle

	index []*entry[T] // what lookups find
	idle  idleList[T] // of the index, leased by nobody
	calls []*call[T]  // under way, and not invalidated since
	// stale are leased or being registered, and not in the index; closing are
	// in their Close.
	stale, closing map[*entry[T]]struct{}

	total, busy load // busy: leased or being registered
	leases      int
	closed      bool
	closeErr    error // the first
	hits        uint64
	misses      uint64
	evicted     uint64
}

// load is what registrations take.
type load struct {
	bytes uint64
	count int
}

func (l *load) add(bytes uint64) { l.bytes += bytes; l.count++ }
func (l *load) sub(bytes uint64) { l.bytes -= bytes; l.count-- }

// entry is one registration of [start, end).
type entry[T io.Closer] struct {
	start, end uint64
	handle     T
	refs       int
	indexed    bool
	prev, next *entry[T] // in the idle list
}

func (e *entry[T]) bytes() uint64                   { return e.end - e.start }
func (e *entry[T]) overlaps(start, end uint64) bool { return e.start < end && start < e.end }

// New makes an empty cache.
func New[T io.Closer](cfg Config[T]) (*Cache[T], error) {
	if cfg.PageBytes == 0 {
		cfg.PageBytes = 4096
	}
	if err := check(cfg); err != nil {
		return nil, err
	}
	c := &Cache[T]{cfg: cfg, stale: map[*entry[T]]struct{}{}, closing: map[*entry[T]]struct{}{}}
	c.changed.L = &c.mu
	return c, nil
}

// Stats is a snapshot; Hits, Misses and Evicted count since New.
type Stats struct {
	Count         int    // registrations, those being made or closed included
	Bytes         uint64 // of them
	Leases        int
	Hits, Misses  uint64
	Evicted       uint64 // closed to make room
	Stale         int    // leased, but invalidated or covered by a larger one
	BusyBytes     uint64 // leased or being registered
	FirstCloseErr error  // what a registration's Close said first, or nil
}

// Stats tells what the cache holds.
func (c *Cache[T]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Count: c.total.count, Bytes: c.total.bytes, Leases: c.leases, Hits: c.hits, Misses: c.misses,
		Evicted: c.evicted, Stale: len(c.stale), BusyBytes: c.busy.bytes, FirstCloseErr: c.closeErr}
}
