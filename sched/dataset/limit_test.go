package dataset

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestLimit: never more at once than the limit was at most, all come to their turn, and
// raising it lets more in while others are inside.
func TestLimit(t *testing.T) {
	const goroutines, turns = 8, 400
	l := NewLimit(1)
	var in, most atomic.Int64
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := range turns {
				l.enter()
				now := in.Add(1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				if i%50 == 0 {
					l.Set(1 + i/50%3)
				}
				in.Add(-1)
				l.leave()
			}
		})
	}
	all.Wait()
	if most.Load() > 3 {
		t.Errorf("%d inside at once, the limit was at most 3", most.Load())
	}

	l.Set(1)
	l.enter()
	second := make(chan struct{})
	go func() {
		l.enter()
		close(second)
	}()
	l.Set(2)
	<-second // while the first is inside
	l.leave()
	l.leave()
	(*Limit)(nil).enter()
	(*Limit)(nil).leave()
}
