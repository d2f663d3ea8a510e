package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// homes are the control connections to the heads of all groups, for calls from any
// goroutine. They also end a connection whose server is not the head any more: one
// that was stopped does not do so itself.
type homes struct {
	mu  sync.Mutex
	all []home
}

type home struct {
	node    place.Node
	conn    *dial.Conn    // nil while it is made
	changed chan struct{} // closed when conn is another one
	left    bool          // the worker has left the group: it is not connected again
}

func newHomes(groups int) *homes {
	h := &homes{all: make([]home, groups)}
	for i := range h.all {
		h.all[i].changed = make(chan struct{})
	}
	return h
}

// set notes a connection, or with nil that there is none.
func (h *homes) set(group int, node place.Node, conn *dial.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := &h.all[group]
	if x.conn == conn {
		return
	}
	x.node, x.conn = node, conn
	close(x.changed)
	x.changed = make(chan struct{})
}

func (h *homes) of(group int) (conn *dial.Conn, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[group].conn, h.all[group].changed
}

// leave notes that the worker has left.
func (h *homes) leave(group int) {
	h.mu.Lock()
	h.all[group].left = true
	h.mu.Unlock()
}

func (h *homes) hasLeft(group int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[group].left
}

// follow ends the connections to servers that c does not have as heads.
func (h *homes) follow(c *place.Chains) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for g := range h.all {
		x := &h.all[g]
		if node, _ := c.Head(g); x.conn != nil && x.node != node {
			hangUp(x.conn)
		}
	}
}

// hangUp ends a connection from any goroutine: the endpoints are left to their
// owner, who learns of it. It does not wait for the goodbye.
func hangUp(conn *dial.Conn) { go conn.Control.Close() }

// answeredWithin is how long after a call that a server refused its connection is
// seen to end, if that is why.
const answeredWithin = 100 * time.Millisecond

// callGroup calls a control method at a group's head: what may be repeated, again at
// the next one until it is answered, Config.Timeout has passed or ctx ends.
func (c *Client) callGroup(ctx context.Context, group int, method string, req, resp any) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
	}
	fail := func(err error) error {
		return fmt.Errorf("client: worker %d: %s at group %d: %w", c.worker, method, group, err)
	}
	var last error
	for {
		conn, changed := c.homes.of(group)
		if conn == nil {
			select {
			case <-changed:
			case <-c.dead:
				return fail(errors.Join(last, c.failure()))
			case <-c.ctx.Done():
				return fail(errors.Join(last, context.Cause(c.ctx)))
			case <-ctx.Done():
				return fail(errors.Join(last, fmt.Errorf("its head is not reached: %w; %s", context.Cause(ctx), c.resolver.report())))
			}
			continue
		}
		err := conn.Call(ctx, method, req, resp)
		if err == nil {
			if method == psmsg.MethodLeave {
				c.homes.leave(group)
			}
			return nil
		}
		if ctx.Err() != nil || !psmsg.Repeatable(method) {
			return fail(err)
		}
		patience := brokenWithin
		if _, moved := psmsg.MovedIn(err); moved {
			hangUp(conn)
			c.resolver.refresh()
		} else if errors.As(err, new(*dial.CallError)) {
			patience = answeredWithin
		}
		last = err
		if !ended(ctx, conn, changed, patience) {
			return fail(err)
		}
		if conn, _ := c.homes.of(group); conn != nil {
			c.lost() // its owner has not seen it yet
		}
		select { // until there is another one
		case <-changed:
		case <-c.dead:
			return fail(errors.Join(last, c.failure()))
		case <-c.ctx.Done():
			return fail(errors.Join(last, context.Cause(c.ctx)))
		case <-ctx.Done():
			return fail(errors.Join(last, context.Cause(ctx)))
		}
	}
}

// ended says whether a connection ends, or is another one, within patience.
func ended(ctx context.Context, conn *dial.Conn, changed <-chan struct{}, patience time.Duration) bool {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-conn.Done():
		return true
	case <-changed:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}

// leavesAtOnce bounds the groups that are told at a time that the worker leaves.
const leavesAtOnce = 16

// leaveGroups tells all groups. A group that was told is not connected again, which
// would have the worker take part once more.
func (c *Client) leaveGroups(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(c.servers))
	slots := make(chan struct{}, leavesAtOnce)
	for g := range c.servers {
		slots <- struct{}{}
		go rdma.Guarded(c.cfg.Host.OnPanic(), func() {
			err := c.CallServer(ctx, g, psmsg.MethodLeave, struct{}{}, &struct{}{})
			if err != nil {
				cancel()
			}
			errs <- err
			<-slots
		})()
	}
	var first error
	for range c.servers {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}
