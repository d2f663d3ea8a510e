package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/csrc/nccl"
)

// status is how a step went at a rank; id is rank 0's, of the communicator.
type status struct {
	Why string `json:"why,omitempty"`
	ID  []byte `json:"id,omitempty"`
}

// Join makes this rank's end of a group, with all ranks of control, which outlives it. It
// fails with ErrUnfit at all of them where one cannot use NCCL.
func Join(ctx context.Context, control Control, opt Options) (*Group, error) {
	opt, err := opt.complete(control)
	if err != nil {
		return nil, err
	}
	if control.Size() > maxRanks {
		return nil, fmt.Errorf("%w: %d ranks, at most %d have room to agree", ErrUnfit, control.Size(), maxRanks)
	}
	t, err := newTable(control)
	if err != nil {
		return nil, err
	}
	g, err := join(ctx, t, opt)
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return g, nil
}

func join(ctx context.Context, t *table, opt Options) (*Group, error) {
	at, mine := look(&opt)
	if opt.Refuse != "" {
		mine.Why = opt.Refuse[:min(len(opt.Refuse), maxSaid)]
	}
	offers, err := gather(t, mine, bound(ctx, opt.Timeout))
	if err != nil {
		return nil, err
	}
	cards, err := deal(offers)
	if err != nil {
		return nil, err
	}
	g, id, err := at.open(t, opt, cards[t.control.Rank()])
	all, err := agreed(ctx, t, opt, status{Why: said(err), ID: id}, 1)
	if err == nil {
		err = g.connect(ctx, all[0].ID)
		// Who fails waits for those whose time must end first.
		_, err = agreed(ctx, t, opt, status{Why: said(err)}, 3)
	}
	if err != nil {
		return nil, errors.Join(err, g.release(true))
	}
	g.begin()
	return g, nil
}

// agreed has all ranks say how a step went, and fails where it failed at one.
func agreed(ctx context.Context, t *table, opt Options, mine status, times time.Duration) ([]status, error) {
	all, err := gather(t, mine, bound(ctx, times*opt.Timeout))
	if err != nil {
		return nil, err
	}
	for r, s := range all {
		if s.Why != "" {
			return nil, fmt.Errorf("%w: rank %d: %s", ErrUnfit, r, s.Why)
		}
	}
	if len(all[0].ID) > 0 && len(all[0].ID) != len(nccl.ID{}) {
		return nil, fmt.Errorf("%w: rank 0 gives %d bytes for NCCL's id, want %d", ErrUnfit, len(all[0].ID), len(nccl.ID{}))
	}
	return all, nil
}

// bound is within, or what is left of ctx where that is less.
func bound(ctx context.Context, within time.Duration) time.Duration {
	if end, is := ctx.Deadline(); is {
		within = max(min(within, time.Until(end)), time.Millisecond)
	}
	return within
}
