package dataset

import "sync"

// Limit is how many of a reader's parsing goroutines parse at once; it may be changed
// while they do. They come to their turns in order, so that no leaf waits for ever. nil
// limits nothing.
type Limit struct {
	mu      sync.Mutex
	changed sync.Cond
	most    int
	in      int
	came    uint64 // who asks next, and whose turn is next
	turn    uint64
}

// NewLimit lets so many parse at once.
func NewLimit(most int) *Limit {
	l := &Limit{most: max(1, most)}
	l.changed.L = &l.mu
	return l
}

// Set changes the number, at least to 1. Any goroutine; who parses is not interrupted.
func (l *Limit) Set(most int) {
	l.mu.Lock()
	l.most = max(1, most)
	l.mu.Unlock()
	l.changed.Broadcast()
}

// enter waits for a goroutine's turn. It holds nothing else that others wait for: those
// whose turn it is parse, and leave.
func (l *Limit) enter() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.came
	l.came++
	for mine != l.turn || l.in >= l.most {
		l.changed.Wait()
	}
	l.turn++
	l.in++
	if l.in < l.most && l.turn != l.came {
		l.changed.Broadcast()
	}
}

func (l *Limit) leave() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.in--
	waiting := l.turn != l.came
	l.mu.Unlock()
	if waiting {
		l.changed.Broadcast()
	}
}
