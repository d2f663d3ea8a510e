package shm

import (
	"runtime"
	"sync/atomic"
	"time"
)

// guard marks the stretches of one goroutine (at a time) in which it may
// touch mappings and other processes' views of them: odd inside, even outside.
// Whoever takes memory away first makes it unreachable, then waits for the
// stretch that may still have seen it. The user pays two stores.
type guard struct{ n atomic.Uint64 }

func (g *guard) enter() { g.n.Store(g.n.Load() + 1) }
func (g *guard) leave() { g.n.Store(g.n.Load() + 1) }

// passed waits until the stretch that runs now, if any, has ended. Stretches
// are bounded: they never block, and copy at most maxMessage bytes a request.
func (g *guard) passed() { waitChange(&g.n, time.Time{}) }

// waitChange waits while word is odd and unchanged, until the deadline if it
// is not zero; false: it passed.
func waitChange(word *atomic.Uint64, deadline time.Time) bool {
	seen := word.Load()
	if seen%2 == 0 {
		return true
	}
	for i := 0; word.Load() == seen; i++ {
		if i < 100 {
			runtime.Gosched()
			continue
		}
		if !deadline.IsZero() && time.Now().After(deadline) {
			return false
		}
		time.Sleep(20 * time.Microsecond)
	}
	return true
}
