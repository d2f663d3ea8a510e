//go:build !cgo

package pmix

import (
	"context"
	"fmt"
)

// Client is a connection to the process manager; there is none without cgo.
type Client struct {
	Rank, Size int
	Space      string
}

// Open answers ErrNotSupported.
func Open(context.Context) (*Client, error) {
	return nil, fmt.Errorf("%w: psrt was built without cgo", ErrNotSupported)
}

// Put checks its arguments only.
func (c *Client) Put(key string, value []byte) error {
	if err := check(key, value); err != nil {
		return err
	}
	return ErrNotSupported
}

// Fence answers ErrNotSupported.
func (c *Client) Fence(context.Context) error { return ErrNotSupported }

// Get answers ErrNotSupported.
func (c *Client) Get(context.Context, int, string) ([]byte, error) { return nil, ErrNotSupported }

// Close does nothing.
func (c *Client) Close(context.Context) error { return nil }
