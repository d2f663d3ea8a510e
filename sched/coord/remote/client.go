package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"psrt/sched/coord"
)

// DialFunc makes a connection to the coordinator's process.
type DialFunc func(ctx context.Context) (net.Conn, error)

// Client is a coord.Coordinator in another process. It may be used by many
// goroutines.
type Client struct {
	dial    DialFunc
	dialing chan struct{} // held while dialing

	mu     sync.Mutex
	link   *link // nil before the first call, and after it broke
	lastID uint64
	closed bool
}

// New is a client that dials when it is first used, and again when the
// connection broke.
func New(dial DialFunc) *Client {
	return &Client{dial: dial, dialing: make(chan struct{}, 1)}
}

// Dial is New, connected.
func Dial(ctx context.Context, dial DialFunc) (*Client, error) {
	c := New(dial)
	if _, err := c.connect(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// connect returns the live link, making one if need be.
func (c *Client) connect(ctx context.Context) (*link, error) {
	if l, err := c.live(); l != nil || err != nil {
		return l, err
	}
	select {
	case c.dialing <- struct{}{}:
		defer func() { <-c.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l, err := c.live(); l != nil || err != nil {
		return l, err // someone else dialed meanwhile
	}
	conn, err := c.dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
	}
	l := newLink(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.fail(coord.ErrClosed)
		return nil, coord.ErrClosed
	}
	c.link = l
	return l, nil
}

// live is the link if it is there and whole.
func (c *Client) live() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, coord.ErrClosed
	}
	if c.link != nil && c.link.alive() {
		return c.link, nil
	}
	return nil, nil
}

func (c *Client) nextID() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return c.lastID
}

// bound gives a call without a deadline one.
func bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// call sends req and waits for its answer. A read is sent once more if the
// connection broke under it.
func (c *Client) call(ctx context.Context, req request, read bool) (response, error) {
	ctx, cancel := bound(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return response{}, err
	}
	for try := 0; ; try++ {
		l, err := c.connect(ctx)
		if err != nil {
			return response{}, err
		}
		req.ID = c.nextID()
		deadline, _ := ctx.Deadline()
		req.TimeoutMicros = max(1, time.Until(deadline).Microseconds())
		res, err := l.call(ctx, &req)
		if read && try == 0 && errors.Is(err, coord.ErrUnavailable) && ctx.Err() == nil {
			continue
		}
		return res, err
	}
}

// Get implements coord.Coordinator.
func (c *Client) Get(ctx context.Context, key string) (coord.KV, error) {
	res, err := c.call(ctx, request{Op: opGet, Key: key}, true)
	if err != nil {
		return coord.KV{}, err
	}
	if len(res.KVs) != 1 {
		return coord.KV{}, fmt.Errorf("coord/remote: get of %s answered with %d keys", key, len(res.KVs))
	}
	return res.KVs[0], nil
}

// List implements coord.Coordinator.
func (c *Client) List(ctx context.Context, prefix string) ([]coord.KV, int64, error) {
	res, err := c.call(ctx, request{Op: opList, Key: prefix}, true)
	return res.KVs, res.Revision, err
}

// Put implements coord.Coordinator.
func (c *Client) Put(ctx context.Context, key string, value []byte, lease coord.LeaseID) (int64, error) {
	return c.write(ctx, request{Op: opPut, Key: key, Value: value, Lease: lease})
}

// CompareAndPut implements coord.Coordinator.
func (c *Client) CompareAndPut(ctx context.Context, key string, value []byte, revision int64, lease coord.LeaseID) (int64, error) {
	return c.write(ctx, request{Op: opCompare, Key: key, Value: value, Revision: revision, Lease: lease})
}

// write checks on this side too: what is too large must not end as a broken
// connection, nor what JSON cannot carry arrive as something else.
func (c *Client) write(ctx context.Context, req request) (int64, error) {
	if err := coord.CheckKey(req.Key); err != nil {
		return 0, err
	}
	if err := coord.CheckValue(req.Key, req.Value); err != nil {
		return 0, err
	}
	res, err := c.call(ctx, req, false)
	return res.Revision, err
}

// Delete implements coord.Coordinator.
func (c *Client) Delete(ctx context.Context, key string) (int64, error) {
	res, err := c.call(ctx, request{Op: opDelete, Key: key}, false)
	return res.Revision, err
}

// Grant implements coord.Coordinator.
func (c *Client) Grant(ctx context.Context, ttl time.Duration) (coord.LeaseID, error) {
	res, err := c.call(ctx, request{Op: opGrant, TTLMicros: ttl.Microseconds()}, false)
	return res.Lease, err
}

// KeepAlive implements coord.Coordinator.
func (c *Client) KeepAlive(ctx context.Context, lease coord.LeaseID) error {
	_, err := c.call(ctx, request{Op: opKeepAlive, Lease: lease}, true)
	return err
}

// Revoke implements coord.Coordinator.
func (c *Client) Revoke(ctx context.Context, lease coord.LeaseID) error {
	_, err := c.call(ctx, request{Op: opRevoke, Lease: lease}, false)
	return err
}

// Watch implements coord.Coordinator.
func (c *Client) Watch(ctx context.Context, prefix string, from int64) (coord.Watcher, error) {
	calling, cancel := bound(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l, err := c.connect(calling)
	if err != nil {
		return nil, err
	}
	w := &watcher{l: l, id: c.nextID(), events: make(chan coord.Event, coord.QueueEvents)}
	if err := l.watch(w); err != nil {
		return nil, err
	}
	deadline, _ := calling.Deadline()
	if _, err := l.call(calling, &request{ID: w.id, Op: opWatch, Key: prefix, Revision: from,
		TimeoutMicros: max(1, time.Until(deadline).Microseconds())}); err != nil {
		w.finish(err)
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { w.finish(context.Cause(ctx)) })
	w.setStop(stop)
	return w, nil
}

// Close ends the connection, its calls and its watches.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	l := c.link
	c.mu.Unlock()
	if l != nil {
		l.fail(coord.ErrClosed)
		<-l.done
	}
	return nil
}
