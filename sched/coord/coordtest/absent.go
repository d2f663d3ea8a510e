package coordtest

import (
	"context"

	"psrt/sched/coord"
)

// Absent is a coordinator that goes away under every write that compares: the first does
// not reach it, the answer to the second is lost, the third gets through.
type Absent struct {
	coord.Coordinator
	writes int
}

// CompareAndPut implements coord.Coordinator.
func (a *Absent) CompareAndPut(ctx context.Context, key string, value []byte, revision int64, lease coord.LeaseID) (int64, error) {
	a.writes++
	if a.writes%3 == 1 {
		return 0, coord.ErrUnavailable
	}
	rev, err := a.Coordinator.CompareAndPut(ctx, key, value, revision, lease)
	if a.writes%3 == 2 {
		return 0, coord.ErrUnavailable
	}
	return rev, err
}
