package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"psrt/sched/psmsg"
)

// barrier is where workers wait for each other.
type barrier struct {
	mu     sync.Mutex
	inside map[int]*inside
	open   chan struct{} // closed when all are inside
	all    func() int    // how many are all, for the newest that came
	since  time.Time     // when the first came
}

// inside is a worker that waits.
type inside struct {
	calls int // of it
	since time.Time
	ends  chan struct{} // closed when stuck is set
	stuck *psmsg.BarrierStuck
}

const (
	barrierDefault = 30 * time.Second
	barrierMost    = 24 * time.Hour
)

// wait returns when all workers wait, or tells who did when limit has passed. A
// worker that calls again while its first call waits (its connection broke)
// counts once.
func (b *barrier) wait(ctx context.Context, worker int, all func() int, limit time.Duration) psmsg.BarrierReply {
	if limit <= 0 {
		limit = barrierDefault
	}
	timer := time.NewTimer(min(limit, barrierMost))
	defer timer.Stop()
	b.mu.Lock()
	if b.inside == nil {
		b.inside, b.open, b.since = map[int]*inside{}, make(chan struct{}), time.Now()
	}
	came, open := b.inside, b.open
	if came[worker] == nil {
		came[worker] = &inside{since: time.Now(), ends: make(chan struct{})}
	}
	mine := came[worker]
	mine.calls++
	b.all = all
	b.mu.Unlock()
	b.look()
	select {
	case <-open:
		return psmsg.BarrierReply{All: true}
	case <-mine.ends:
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-open: // meanwhile
		return psmsg.BarrierReply{All: true}
	default:
	}
	rep := psmsg.BarrierReply{Of: all(), Stuck: mine.stuck}
	for w := range came {
		rep.Came = append(rep.Came, w)
	}
	slices.Sort(rep.Came)
	if mine.calls--; mine.calls == 0 && came[worker] == mine {
		delete(came, worker)
	}
	return rep
}

// look opens the barrier where all are inside: one came, or left.
func (b *barrier) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.inside) > 0 && len(b.inside) >= b.all() {
		close(b.open)
		b.inside, b.open = nil, nil
	}
}
