package usage

import (
	"sync"
	"testing"
	"time"
)

// Two goroutines that work beside each other count once, pauses not at all.
func TestClock(t *testing.T) {
	const work = 50 * time.Millisecond
	var c Clock
	start := time.Now()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			c.Enter()
			defer c.Leave()
			time.Sleep(work)
		})
	}
	wg.Wait()
	spent := time.Since(start)
	busy := c.Busy()
	if busy < work || busy > spent {
		t.Errorf("busy %v, want %v to %v", busy, work, spent)
	}
	time.Sleep(work)
	if c.Busy() != busy {
		t.Errorf("the clock ran on while nobody worked: %v, then %v", busy, c.Busy())
	}
	c.Enter()
	time.Sleep(time.Millisecond)
	if c.Busy() <= busy {
		t.Error("the clock stands while somebody works")
	}
	c.Leave()
	var none *Clock
	none.Enter()
	none.Leave()
	if none.Busy() != 0 {
		t.Error("a nil clock ran")
	}
}
