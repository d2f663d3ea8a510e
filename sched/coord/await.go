package coord

import (
	"context"
	"errors"
)

// Await waits until key exists and returns its value.
func Await(ctx context.Context, c Coordinator, key string) ([]byte, error) {
	kv, err := c.Get(ctx, key)
	if err == nil {
		return kv.Value, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	kvs, rev, err := c.List(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, kv := range kvs {
		if kv.Key == key {
			return kv.Value, nil
		}
	}
	w, err := c.Watch(ctx, key, rev+1)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	for {
		select {
		case e, ok := <-w.Events():
			if !ok {
				return nil, w.Err()
			}
			if e.Key == key && !e.Deleted {
				return e.Value, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
