package coord

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// putPause is between tries to put a key in a store that can be read, and not written.
const putPause = 100 * time.Millisecond

// PutNew puts a key that is not there. If it is, the error is ErrConflict, with the value
// that it has; where that cannot be read, it is not ErrConflict. Nobody repeats a CompareAndPut whose answer was lost: here what is there
// then tells whether it has happened, so value must be one that no other caller puts, or
// one that does as well if another has put it.
func PutNew(ctx context.Context, c Coordinator, key string, value []byte, lease LeaseID) (there []byte, err error) {
	for lost := false; ; {
		_, err := c.CompareAndPut(ctx, key, value, 0, lease)
		away := errors.Is(err, ErrUnavailable)
		if !away && !errors.Is(err, ErrConflict) {
			return nil, err
		}
		if !away {
			err = nil // a conflict is not told without the value
		}
		lost = lost || away
		kv, got := c.Get(ctx, key)
		switch {
		case got == nil && lost && bytes.Equal(kv.Value, value):
			return nil, nil
		case got == nil:
			return kv.Value, ErrConflict
		case !errors.Is(got, ErrNotFound):
			return nil, errors.Join(err, got)
		}
		select {
		case <-time.After(putPause):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}
