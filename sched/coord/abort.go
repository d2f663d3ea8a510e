package coord

import (
	"context"
	"errors"
)

// abortKey holds the reason once a job is to end.
const abortKey = "abort"

// AbortError is the reason somebody gave for ending the job.
type AbortError struct{ Reason string }

func (e *AbortError) Error() string { return "the job was ended: " + e.Reason }

// Abort raises the job's abort flag. The first reason stays.
func Abort(ctx context.Context, c Coordinator, reason string) error {
	if len(reason) > MaxValue {
		reason = reason[:MaxValue]
	}
	_, err := PutNew(ctx, c, abortKey, []byte(reason), 0)
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// Aborted is the reason, if the flag is up.
func Aborted(ctx context.Context, c Coordinator) (reason string, up bool, err error) {
	kv, err := c.Get(ctx, abortKey)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	return string(kv.Value), true, nil
}

// WatchAbort yields the reason once the flag goes up (or is up). The channel
// is closed without a value when ctx ends or the coordinator is gone.
func WatchAbort(ctx context.Context, c Coordinator) (<-chan string, error) {
	past, rev, err := c.List(ctx, abortKey)
	if err != nil {
		return nil, err
	}
	out := make(chan string, 1)
	for _, kv := range past {
		if kv.Key == abortKey {
			out <- string(kv.Value)
			close(out)
			return out, nil
		}
	}
	w, err := c.Watch(ctx, abortKey, rev+1)
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(out)
		defer w.Close()
		for e := range w.Events() {
			if e.Key == abortKey && !e.Deleted {
				out <- string(e.Value)
				return
			}
		}
	}()
	return out, nil
}
