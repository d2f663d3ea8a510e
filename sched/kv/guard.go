package kv

import (
	"errors"
	"fmt"

	"psrt/rdma"
)

var errPanicked = &Error{Internal, errors.New("kv: a bug of psrt; the next call tells more")}

// guarded is f for a goroutine, with help's promise.
func (c *Client) guarded(f func()) func() {
	return rdma.Guarded(func(v any) { c.broken(FaultError(v)) }, f)
}

// help runs f on a goroutine of the client that Close waits for. A panic of it
// must not end the process, which is the trainer's: the client is of no use then,
// and every call says so.
func (c *Client) help(f func()) {
	c.helpers.Go(c.guarded(f))
}

// Help is help for a companion, at the end of an asynchronous request.
func (c *Client) Help(f func()) { c.help(f) }

// Over says why no call can go on, nil if they can.
func (c *Client) Over() error { return c.over() }

// broken makes err the answer of every call from now on.
func (c *Client) broken(err error) {
	c.bug.CompareAndSwap(nil, &Error{Internal, fmt.Errorf("kv: the client is broken; close it: %w", err)})
	c.cancel()
	go func() { // whoever panicked may hold the lock
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wakeAll()
	}()
}

// over says why no call can go on, nil if they can.
func (c *Client) over() error {
	if err := c.bug.Load(); err != nil {
		return err
	}
	if c.closed.Load() {
		return errClosed
	}
	return nil
}
