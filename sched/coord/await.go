package coord

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Await is the value of a key as soon as it exists. ctx is its only bound: give
// it a deadline unless the wait is meant to last as long as the job.
func Await(ctx context.Context, c Coordinator, key string) ([]byte, error) {
	began := time.Now()
	for {
		value, err := await(ctx, c, key)
		switch {
		case err == nil:
			return value, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("waiting %s for %s: %w", time.Since(began).Round(10*time.Millisecond), key, context.Cause(ctx))
		case !errors.Is(err, ErrLagging) && !errors.Is(err, ErrCompacted):
			return nil, err
		}
	}
}

// await looks at the past, then at what comes.
func await(ctx context.Context, c Coordinator, key string) ([]byte, error) {
	past, rev, err := c.List(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, kv := range past {
		if kv.Key == key {
			return kv.Value, nil
		}
	}
	w, err := c.Watch(ctx, key, rev+1)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	for e := range w.Events() {
		if e.Key == key && !e.Deleted {
			return e.Value, nil
		}
	}
	return nil, w.Err()
}

// awaitPause is between tries to reach a coordinator that is away.
const awaitPause = 500 * time.Millisecond

// AwaitThrough is Await that outlasts the coordinator's absences: it asks again until
// ctx ends, or the coordinator is closed on this side.
func AwaitThrough(ctx context.Context, c Coordinator, key string) ([]byte, error) {
	for {
		value, err := Await(ctx, c, key)
		if ctx.Err() != nil || !errors.Is(err, ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			return value, err
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done(): // Await says so
		}
	}
}
