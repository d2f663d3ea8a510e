package usage

import (
	"sync"
	"time"
)

// Clock runs while at least one goroutine is at work, so that a stage of many
// goroutines has one busy time, never longer than the time that passed. The
// zero value stands; a nil Clock measures nothing. Any goroutine.
type Clock struct {
	mu     sync.Mutex
	active int
	since  time.Time // of the first of the active
	total  time.Duration
}

// Enter begins a goroutine's work; Leave ends it.
func (c *Clock) Enter() {
	if c == nil {
		return
	}
	c.mu.Lock()
	if c.active == 0 {
		c.since = time.Now()
	}
	c.active++
	c.mu.Unlock()
}

// Leave ends what Enter began.
func (c *Clock) Leave() {
	if c == nil {
		return
	}
	c.mu.Lock()
	if c.active--; c.active == 0 {
		c.total += time.Since(c.since)
	}
	c.mu.Unlock()
}

// Busy is how long the clock has run.
func (c *Clock) Busy() time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active > 0 {
		return c.total + time.Since(c.since)
	}
	return c.total
}
