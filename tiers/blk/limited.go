package blk

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// Limited makes a device as slow as a smaller one: at most so many requests a
// second, each answered no sooner than the latency after it was taken. With it
// one disk stands for several when the striping over them is measured.
type Limited struct {
	Device

	gap, latency time.Duration
	free         time.Time // when the next request begins
	due          []dueResult
	got          [64]Result
	in           map[uint64]limitedRequest // in flight below, by the number given there
	number       uint64

	mu     sync.Mutex
	notify func()
	timer  *time.Timer // calls notify when the first of due is
	closed bool
}

type limitedRequest struct {
	id  uint64
	due time.Time
}

type dueResult struct {
	Result

	due time.Time
}

// NewLimited wraps a device that nothing was submitted to yet.
func NewLimited(d Device, perSecond float64, latency time.Duration) *Limited {
	l := &Limited{Device: d, gap: time.Duration(float64(time.Second) / perSecond), latency: latency, in: map[uint64]limitedRequest{}}
	l.timer = time.AfterFunc(time.Hour, l.ring)
	l.timer.Stop()
	return l
}

// SetRate changes the limit for what is submitted from now on.
func (l *Limited) SetRate(perSecond float64) { l.gap = time.Duration(float64(time.Second) / perSecond) }

// ring runs on a timer's goroutine.
func (l *Limited) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notify != nil && !l.closed {
		l.notify()
	}
}

func (l *Limited) OnResult(f func()) {
	l.mu.Lock()
	l.notify = f
	l.mu.Unlock()
	l.Device.OnResult(f)
}

func (l *Limited) Submit(rs []Request) (taken int, err error) {
	room := l.Depth() - len(l.in) - len(l.due)
	batch := make([]Request, 0, min(room, len(rs)))
	for _, r := range rs[:min(room, len(rs))] {
		l.number++
		r.ID = l.number
		batch = append(batch, r)
	}
	taken, err = l.Device.Submit(batch)
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	for i := range batch[:taken] {
		l.free = l.free.Add(l.gap)
		due := l.free
		if soonest := now.Add(l.latency); due.Before(soonest) {
			due = soonest
		}
		l.in[batch[i].ID] = limitedRequest{rs[i].ID, due}
	}
	return taken, err
}

func (l *Limited) Poll(out []Result) int {
	for {
		n := l.Device.Poll(l.got[:])
		for _, r := range l.got[:n] {
			q := l.in[r.ID]
			delete(l.in, r.ID)
			r.ID = q.id
			l.due = append(l.due, dueResult{r, q.due})
		}
		if n < len(l.got) {
			break
		}
	}
	now := time.Now()
	n, kept := 0, l.due[:0]
	var first time.Time
	for _, r := range l.due {
		if n < len(out) && !r.due.After(now) {
			out[n] = r.Result
			n++
			continue
		}
		if first.IsZero() || r.due.Before(first) {
			first = r.due
		}
		kept = append(kept, r)
	}
	l.due = kept
	if n < len(out) && !first.IsZero() {
		l.timer.Reset(first.Sub(now))
	}
	return n
}

func (l *Limited) Wait(deadline time.Time) error {
	first := deadline
	for _, r := range l.due {
		if r.due.Before(first) {
			first = r.due
		}
	}
	if len(l.due) == 0 {
		return l.Device.Wait(deadline)
	}
	time.Sleep(time.Until(first))
	if first == deadline {
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (l *Limited) String() string {
	return fmt.Sprintf("%s, limited to %.0f requests a second", l.Device, float64(time.Second)/float64(l.gap))
}

func (l *Limited) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.timer.Stop()
	return l.Device.Close()
}
