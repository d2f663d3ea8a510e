package coord_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"psrt/sched/coord"
	"psrt/sched/coord/local"
)

// absent is a coordinator that is away for some calls, in each of the ways that its
// clients have.
type absent struct {
	coord.Coordinator
	errs []error // of the next calls of List
}

func (a *absent) List(ctx context.Context, prefix string) ([]coord.KV, int64, error) {
	if len(a.errs) > 0 {
		err := a.errs[0]
		a.errs = a.errs[1:]
		return nil, 0, err
	}
	return a.Coordinator.List(ctx, prefix)
}

func TestAwaitThroughAbsences(t *testing.T) {
	s := local.New()
	defer s.Close()
	if _, err := s.Put(t.Context(), "k", []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	away := fmt.Errorf("%w: connection reset", coord.ErrUnavailable)
	a := &absent{s, []error{away, context.DeadlineExceeded}}
	if v, err := coord.AwaitThrough(t.Context(), a, "k"); err != nil || string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
	a.errs = []error{away}
	if _, err := coord.Await(t.Context(), a, "k"); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("Await: %v", err)
	}
	a.errs = []error{coord.ErrClosed}
	if _, err := coord.AwaitThrough(t.Context(), a, "k"); !errors.Is(err, coord.ErrClosed) {
		t.Errorf("of one that is closed: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	a.errs = []error{away}
	if _, err := coord.AwaitThrough(ended, a, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end: %v", err)
	}
}
