package dataset

import (
	"context"

	"psrt/sched/usage"
)

// send and receive are for goroutines that have entered the clock: they leave
// it while they wait. They report false when ctx ends first.

func send[T any](ctx context.Context, busy *usage.Clock, to chan<- T, x T) bool {
	select {
	case to <- x:
		return true
	default:
	}
	busy.Leave()
	defer busy.Enter()
	select {
	case to <- x:
		return true
	case <-ctx.Done():
		return false
	}
}

func receive[T any](ctx context.Context, busy *usage.Clock, from <-chan T) (x T, ok bool) {
	select {
	case x = <-from:
		return x, true
	default:
	}
	busy.Leave()
	defer busy.Enter()
	select {
	case x = <-from:
		return x, true
	case <-ctx.Done():
		return x, false
	}
}
