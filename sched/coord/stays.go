package coord

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

func (p Party) gathered() string { return "meet/gather/" + p.Name + "/" + strconv.Itoa(p.ID) }

// Said is what this rank, or a process before it, has said at a Gather of those that
// stay; nil if nothing.
func (p Party) Said(ctx context.Context, c Coordinator) ([]byte, error) {
	kv, err := c.Get(ctx, p.gathered())
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case len(kv.Value) < nonceBytes:
		return nil, fmt.Errorf("coord: %s holds %d bytes, want %d at least; run the same psrt everywhere", kv.Key, len(kv.Value), nonceBytes)
	}
	return kv.Value[nonceBytes:], nil
}

// Forget removes what this rank has said at a Gather of those that stay. Nobody may
// come to that again.
func (p Party) Forget(ctx context.Context, c Coordinator) error {
	if _, err := c.Delete(ctx, p.gathered()); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}
